import { randomUUID } from 'node:crypto';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import autocannon, { type Result } from 'autocannon';
import { steadyLoad, type SteadyResult } from './steady-load.ts';

/**
 * How many requests of AI gateways the intake takes a second, alone and in batches of 100, beside a
 * bare express handler that appends the same events to LevelDB. Each side runs in a process of its
 * own, in turns, so that a busy machine slows both.
 */
const CONNECTIONS = 64;
const BATCH = 100;
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 5);
const PASSES = Number(process.env['BENCH_PASSES'] ?? 3);
const STEADY = 500;

interface Side {
  readonly child: ChildProcess;
  readonly port: number;
}

const sides = { intake: await start('intake'), bare: await start('bare') };
await load(sides.intake, 1, 1);
await load(sides.bare, 1, 1);
const before = { intake: await steady(sides.intake), bare: await steady(sides.bare) };
const single = { intake: [] as Result[], bare: [] as Result[] };
const batched: Result[] = [];
for (let pass = 0; pass < PASSES; pass++) {
  single.intake.push(await load(sides.intake, 1, SECONDS));
  single.bare.push(await load(sides.bare, 1, SECONDS));
  batched.push(await load(sides.intake, BATCH, SECONDS));
}
const after = { intake: await steady(sides.intake), bare: await steady(sides.bare) };
for (const { child } of Object.values(sides)) child.disconnect();

const rate = ({ requests }: Result): number => requests.average;
report('batched_events_per_second', median(batched.map(rate)) * BATCH, 'events/s');
report('requests_per_second', median(single.intake.map(rate)), 'requests/s');
report('requests_per_second_bare', median(single.bare.map(rate)), 'requests/s');
report(
  'vs_bare',
  median(single.intake.map((one, pass) => rate(one) / rate(single.bare[pass] ?? one))),
  'ratio',
);
report('p99_ms', before.intake.p99, `ms at ${STEADY} requests/s`);
report('p99_ms_bare', before.bare.p99, `ms at ${STEADY} requests/s`);
report('p99_ms_after_load', after.intake.p99, `ms at ${STEADY} requests/s`);
report('p99_ms_after_load_bare', after.bare.p99, `ms at ${STEADY} requests/s`);

async function start(kind: string): Promise<Side> {
  const child = fork(new URL('intake-server.ts', import.meta.url), [kind]);
  const [port] = (await once(child, 'message')) as [number];
  return { child, port };
}

function steady({ port }: Side): Promise<SteadyResult> {
  return steadyLoad(port, { perSecond: STEADY, seconds: SECONDS }, () => ({
    ...requestOf(1),
    body: bodyOf(1),
  }));
}

async function load({ port }: Side, events: number, duration: number): Promise<Result> {
  const url = `http://127.0.0.1:${port}`;
  const sent = requestOf(events);
  const result = await autocannon({
    url,
    connections: CONNECTIONS,
    duration,
    requests: [{ ...sent, setupRequest: (request) => ({ ...request, body: bodyOf(events) }) }],
  });
  if (result.non2xx + result.errors === 0 && result['2xx'] > 0) return result;
  throw new Error(`${url}: ${result.non2xx} refused, ${result.errors} failed`);
}

function requestOf(events: number) {
  const type = events === 1 ? 'application/cloudevents+json' : 'application/cloudevents-batch+json';
  return { method: 'POST', path: '/api/v1/events', headers: { 'content-type': type } } as const;
}

/** Events that nobody has sent before, of 100 tenants and 5 models. */
function bodyOf(count: number): string {
  const events = Array.from({ length: count }, () => {
    const id = randomUUID();
    const choice = Number.parseInt(id.slice(0, 6), 16);
    return {
      specversion: '1.0',
      type: 'litellm_tokens',
      id: `chatcmpl-${id}`,
      time: new Date().toISOString(),
      subject: `tenant-${choice % 100}`,
      source: 'litellm-proxy',
      data: {
        model: `model-${choice % 5}`,
        cost: 0.000123,
        prompt_tokens: choice % 4000,
        completion_tokens: (choice % 700) + 1,
        total_tokens: (choice % 4000) + (choice % 700) + 1,
      },
    };
  });
  return JSON.stringify(count === 1 ? events[0] : events);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function report(figure: string, value: number, unit: string): void {
  const rounded = Math.round(value * 1000) / 1000;
  console.log(JSON.stringify({ bench: 'intake', figure, value: rounded, unit }));
}
