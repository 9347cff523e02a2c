// Member chains at `$` are read when the operation runs.
get($.data.url, { headers: { auth: $.token } });
post(`/items/${$.data.id}`, { body: $.data, tags: ['a', $.tag] }, state => $.data.x > 1);
each(
  $.items, // all of them
  fn(state => {
    const $ = { mine: true };
    return { ...state, ok: $.mine };
  })
);
const mapping = { name: $.name };
