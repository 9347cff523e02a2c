# As much of Jason as the tests need.

defmodule Jason do
  def decode(text) do
    {value, ""} = text |> value()
    {:ok, value}
  rescue
    error in [MatchError, FunctionClauseError, ArgumentError] -> {:error, error}
  end

  def encode!(nil), do: "null"
  def encode!(word) when is_boolean(word), do: Atom.to_string(word)
  def encode!(word) when is_atom(word), do: encode!(Atom.to_string(word))
  def encode!(number) when is_number(number), do: to_string(number)

  def encode!(text) when is_binary(text),
    do: [?", for(<<c::utf8 <- text>>, do: char(c)), ?"] |> IO.iodata_to_binary()

  def encode!(list) when is_list(list), do: "[" <> Enum.map_join(list, ",", &encode!/1) <> "]"

  def encode!(map) when is_map(map) do
    "{" <>
      Enum.map_join(map, ",", fn {k, v} -> encode!(to_string(k)) <> ":" <> encode!(v) end) <> "}"
  end

  defp char(c) when c in [?", ?\\], do: [?\\, c]
  defp char(c) when c < 32, do: ["\\u", String.pad_leading(Integer.to_string(c, 16), 4, "0")]
  defp char(c), do: <<c::utf8>>

  # Each returns what it has read, and the text behind it, without white space.
  defp value(<<c, rest::binary>>) when c in ' \t\n\r', do: value(rest)
  defp value("null" <> rest), do: {nil, skip(rest)}
  defp value("true" <> rest), do: {true, skip(rest)}
  defp value("false" <> rest), do: {false, skip(rest)}
  defp value("{" <> rest), do: object(skip(rest), %{})
  defp value("[" <> rest), do: array(skip(rest), [])
  defp value("\"" <> rest), do: string(rest, "")

  defp value(text) do
    [number] = Regex.run(~r/^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/, text)
    rest = binary_part(text, byte_size(number), byte_size(text) - byte_size(number))

    case Integer.parse(number) do
      {n, ""} -> {n, skip(rest)}
      _ -> {number |> Float.parse() |> elem(0), skip(rest)}
    end
  end

  defp object("}" <> rest, map), do: {map, skip(rest)}
  defp object("," <> rest, map), do: object(skip(rest), map)

  defp object("\"" <> rest, map) do
    {key, ":" <> rest} = string(rest, "")
    {v, rest} = value(rest)
    object(rest, Map.put(map, key, v))
  end

  defp array("]" <> rest, list), do: {Enum.reverse(list), skip(rest)}
  defp array("," <> rest, list), do: array(skip(rest), list)

  defp array(text, list) do
    {v, rest} = value(text)
    array(rest, [v | list])
  end

  defp string("\"" <> rest, text), do: {text, skip(rest)}

  defp string(<<"\\u", hex::binary-size(4), rest::binary>>, text) do
    string(rest, text <> <<String.to_integer(hex, 16)::utf8>>)
  end

  defp string(<<?\\, c, rest::binary>>, text) do
    string(rest, text <> Map.get(%{?n => "\n", ?t => "\t", ?r => "\r"}, c, <<c>>))
  end

  defp string(<<c::utf8, rest::binary>>, text), do: string(rest, text <> <<c::utf8>>)

  defp skip(<<c, rest::binary>>) when c in ' \t\n\r', do: skip(rest)
  defp skip(rest), do: rest
end
