"""An engine for phxworker in Python 3, to start one's own from:

    phxworker --engine "python3 examples/engine/engine.py"

The body of a job is a Python expression. It finds the state in `state` and the
job's credential, a dict or None, in `credential`; its value is the next state.
The condition of an edge is an expression over `state` as well. What a job prints
goes to the log of its step. docs/engine-protocol.md describes the messages.
"""

import collections
import contextlib
import io
import json
import platform
import sys
import traceback

wire = sys.stdout  # for messages only: print goes elsewhere


def send(kind, **fields):
    line = json.dumps({"type": kind, **fields}, allow_nan=False)
    wire.write(line + "\n")
    wire.flush()


class Log(io.TextIOBase):
    """Makes a log message of every line that is printed."""

    def __init__(self, step):
        self.step, self.rest = step, ""

    def write(self, text):
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            send("log", step=self.step, level="info", source="JOB", message=[line])
        return len(text)


def fits(edge, state, failed):
    condition = edge.get("condition") or "always"
    if edge.get("enabled") is False:
        return False
    if condition in ("always", "on_job_success", "on_job_failure"):
        return condition == "always" or failed == (condition == "on_job_failure")
    return bool(eval(condition, {"state": state}))


def execute(run):
    plan = run["plan"]
    jobs = {job["id"]: job for job in plan["jobs"]}
    code = {id: compile(job.get("body") or "state", id, "eval") for id, job in jobs.items()}
    edges = collections.defaultdict(list)
    for edge in plan.get("edges") or []:
        edges[edge.get("source_job_id") or edge.get("source_trigger_id")].append(edge)

    def following(node, state, failed):
        return [edge["target_job_id"] for edge in edges[node] if fits(edge, state, failed)]

    state = run["input"] if run["input"] is not None else {}
    start = plan.get("starting_node_id") or plan["jobs"][0]["id"]
    first = [start] if start in jobs else following(start, state, False)
    queue = collections.deque((job, None, state) for job in first)
    count, leafs = 0, []
    while queue:
        job, origin, state = queue.popleft()
        count += 1
        step = f"step {count}"
        send("step-start", step=step, job=job, **({"from": origin} if origin else {}))
        ended = {"reason": "success"}
        try:
            with contextlib.redirect_stdout(Log(step)):
                state = eval(code[job], {"state": state, "credential": run["credentials"].get(job)})
            json.dumps(state, allow_nan=False)  # it must be one that can be sent
        except Exception as error:
            ended = {"reason": "fail", "error_type": type(error).__name__, "error_message": str(error)}
            state = {**state, "errors": {job: str(error)}} if isinstance(state, dict) else {}
            send("log", step=step, level="error", source="R/T", message=[traceback.format_exc(limit=-1)])
        after = following(job, state, ended["reason"] == "fail")
        send("step-complete", step=step, state=state, leaf=not after, **ended)
        queue.extend((target, step, state) for target in after)
        leafs += [] if after else [state]
    # Without a reason, the leafs decide: a run fails when one of them did.
    send("end", **({"state": leafs[0]} if len(leafs) == 1 else {}))


def main():
    sys.stdin.reconfigure(encoding="utf-8")
    send("ready", versions={"engine": "python example", "python": platform.python_version()})
    for line in sys.stdin:  # its end is ours
        message = json.loads(line)
        if message["type"] != "run":
            continue  # what is not understood is ignored
        try:
            execute(message["run"])
        except SyntaxError as error:
            text = f"{error.msg} in the job {error.filename}, line {error.lineno}"
            send("end", reason="crash", error_type="CompileError", error_message=text)
        except Exception as error:
            send("end", reason="crash", error_type=type(error).__name__, error_message=str(error))


if __name__ == "__main__":
    main()
