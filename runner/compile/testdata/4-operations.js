fn(state => helper(state))
const n = await Promise.resolve(1);
if (n) {
  fn(state => state); // no operation: not at the top level
}
fn(await Promise.resolve(state => state)); /* two on a line */ util.log(n)
function helper(state) {
  return { ...state, n };
}
export const util = { log: x => state => (console.log(x), state) };
