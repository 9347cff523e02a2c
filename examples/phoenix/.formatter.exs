[
  inputs: ["*.exs", ".formatter.exs", "{config,lib,test}/**/*.{ex,exs}"],
  # As Phoenix has them; import_deps would need it to be installed.
  locals_without_parens: [
    channel: 2,
    socket: 3,
    assert_reply: 3,
    refute_reply: 4,
    assert_push: 2,
    refute_push: 2
  ]
]
