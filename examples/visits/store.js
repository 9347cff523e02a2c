fn(state => {
  console.log('storing the visit as', state.configuration.user);
  return { data: { stored: state.data.patient.name, by: state.configuration.user } };
});
