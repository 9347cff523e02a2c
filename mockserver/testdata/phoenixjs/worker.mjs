// A worker of the barest kind, made of the official Phoenix client: it posts a
// run, is woken, and takes the run to its end, with a crash of the topic half
// way. It prints one JSON line for each thing it saw; a failure exits with 1.
import { Socket } from 'phoenix';
import WebSocket from 'ws';

const { WORKER_URL, HTTP_URL, TOKEN } = process.env;
const show = (what, value) => console.log(JSON.stringify([what, value]));

const socket = new Socket(WORKER_URL, {
  transport: WebSocket,
  params: { token: TOKEN, api_version: '1.2', worker_version: '1.0.0' },
  heartbeatIntervalMs: 200,
  rejoinAfterMs: () => 50,
});

// A push or a join, as a promise.
const answer = push => new Promise((resolve, reject) => {
  push.receive('ok', resolve)
    .receive('error', e => reject(new Error(`refused: ${JSON.stringify(e)}`)))
    .receive('timeout', () => reject(new Error('timeout')));
});

const watchdog = setTimeout(() => {
  console.error('not done after 20 s');
  process.exit(1);
}, 20_000);

try {
  socket.connect();
  const queue = socket.channel('worker:queue', { capacity: 1, queues: { 'manual>*': 1 } });
  const woken = new Promise(resolve => queue.on('work-available', resolve));
  show('joined', await answer(queue.join()));

  const posted = await fetch(`${HTTP_URL}/run?wakeup&queue=manual`, {
    method: 'POST',
    body: JSON.stringify({ id: 'js-run', jobs: [{ id: 'a', body: 'fn(s => s)' }], dataclip: { data: { 'é': 1 } } }),
  });
  show('posted', posted.status);
  show('woken', await woken);

  const { runs } = await answer(queue.push('claim', { demand: 1, worker_name: 'js', queues: ['manual', '*'] }));
  show('claimed', runs.map(r => r.id));
  const run = socket.channel('run:js-run', { token: runs[0].token });
  show('run joined', await answer(run.join()));

  const plan = await answer(run.push('fetch:plan', {}));
  show('plan', plan.jobs);
  const clip = await answer(run.push('fetch:dataclip', { id: plan.dataclip_id }));
  show('dataclip', [clip instanceof ArrayBuffer, new TextDecoder().decode(clip)]);
  show('run:start', await answer(run.push('run:start', { versions: { worker: '1' } })));

  const step_id = crypto.randomUUID();
  const output_dataclip_id = crypto.randomUUID();
  const started = await answer(run.push('step:start', { step_id, job_id: 'a', input_dataclip_id: plan.dataclip_id }));
  show('step:start', started.step_id === step_id);

  // The topic crashes without an answer, and the client joins again by itself.
  const crashed = new Promise(resolve => run.onError(() => resolve(run.state)));
  const rejoined = new Promise(resolve => run.joinPush.receive('ok', () => resolve(run.state)));
  run.push('no-such-event', {});
  show('crashed', await crashed);
  show('rejoined', await rejoined);

  const log = await answer(run.push('run:log', { message: ['hi'], level: 'info', source: 'JOB', timestamp: '1795168192891559', step_id }));
  show('run:log', typeof log.log_line_id);
  const binary = await answer(run.push('run:log', new TextEncoder().encode('{"bin":1}').buffer));
  show('binary run:log', typeof binary.log_line_id);
  await answer(run.push('step:complete', {
    step_id, job_id: 'a', reason: 'success', error_type: null, error_message: null,
    output_dataclip: '{"a":1}', output_dataclip_id,
  }));
  const end = { reason: 'success', error_type: null, error_message: null, final_dataclip_id: output_dataclip_id };
  show('run:complete', await answer(run.push('run:complete', end)));
  await answer(run.push('run:complete', end)).catch(e => show('again', e.message));
  show('left', await answer(run.leave()));
  show('queue', queue.state);
} catch (e) {
  console.error(e);
  process.exit(1);
}
clearTimeout(watchdog);
socket.disconnect(() => process.exit(0));
