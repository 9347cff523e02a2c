// steps follows which step is under way, and which step each goes on from. The
// runtime tells neither, but it works through a queue; so this keeps the same.

export class Steps {
  #bodies = new Set(); // the ids of those that execute anything
  #next = new Map(); // by id, the ids that its edges lead to
  #queue; // [id, the step it goes on from], in the runtime's order
  #count = 0;
  current; // the id of the step under way

  constructor(plan, start) {
    for (const { id, expression, next } of plan) {
      if (expression) this.#bodies.add(id);
      this.#next.set(id, Object.keys(next ?? {}));
    }
    this.#queue = [];
    this.#push(start, undefined, new Set());
  }

  // begin returns the step that executes a job, and the one it goes on from.
  begin(job) {
    const at = this.#queue.findIndex(([id]) => id === job);
    const [, from] = this.#queue[at] ?? [];
    this.#queue.splice(0, at + 1); // before it are only such as were not followed
    this.current = `s${++this.#count}`;
    return { step: this.current, from };
  }

  complete(next) {
    const step = this.current;
    this.current = undefined;
    for (const id of next) this.#push(id, step, new Set());
    return step;
  }

  // A node without a body does not tell which of its edges it followed: each of
  // them may come.
  #push(id, from, seen) {
    if (seen.has(id)) return;
    seen.add(id);
    if (this.#bodies.has(id)) this.#queue.push([id, from]);
    else for (const next of this.#next.get(id) ?? []) this.#push(next, from, seen);
  }
}
