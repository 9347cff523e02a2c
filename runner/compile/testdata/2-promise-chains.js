get('/a')
  .then(state => {
    return { ...state, a: state.data };
  })
  .catch(error => console.log(error));
get('/b').catch((error, state) => state);
get('/c')
  .catch((error, state) => state)
  .then(state => ({ ...state, c: true }));
each($.items, post('/d', $.data).then(state => state));
fn(state => Promise.resolve(state).then(s => s));
