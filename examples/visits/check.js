fn(state => {
  const { patient, date } = state.data;
  if (isNaN(Date.parse(date))) {
    throw new Error(`the visit of ${patient.name} has no date`);
  }
  return state;
});
