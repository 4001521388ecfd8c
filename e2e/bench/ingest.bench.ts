import { once } from 'node:events';
import { type ChildProcess, fork } from 'node:child_process';
import autocannon, { type Result } from 'autocannon';

/**
 * How many requests a second POST /api/v1/events takes (token, schema, deduplication, synced to
 * disk), beside a bare express handler that parses the same bodies and answers, and beside one that
 * also stores the events with bare classic-level. Each runs in a process of its own, in turns, so
 * that a busy machine slows all of them.
 */
const CONNECTIONS = 64;
const EVENTS_PER_BODY = 10;
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 5);
const PASSES = 3;
const TOKEN = 'bench-token-0123456789';

const KINDS = ['express', 'bare-ledger', 'meterfeed'] as const;

let serial = 0;

const servers = new Map<Kind, Server>();
type Kind = (typeof KINDS)[number];

interface Server {
  readonly child: ChildProcess;
  readonly url: string;
}

for (const kind of KINDS) servers.set(kind, await start(kind));
for (const kind of KINDS) await load(kind, 1);
const passes: Readonly<Record<Kind, Result>>[] = [];
for (let round = 0; round < PASSES; round++) {
  passes.push({
    express: await load('express', SECONDS),
    'bare-ledger': await load('bare-ledger', SECONDS),
    meterfeed: await load('meterfeed', SECONDS),
  });
}
for (const { child } of servers.values()) child.disconnect();

report('rps_vs_express', ratio('meterfeed', 'express'), 'ratio');
report('rps_vs_bare_ledger', ratio('meterfeed', 'bare-ledger'), 'ratio');
report('rps_bare_ledger_vs_express', ratio('bare-ledger', 'express'), 'ratio');
for (const kind of KINDS) {
  const runs = passes.map((round) => round[kind]);
  const name = kind.replace('-', '_');
  report(`rps_${name}`, median(runs.map((run) => run.requests.average)), 'requests/s');
  report(`p50_${name}`, median(runs.map((run) => run.latency.p50)), 'ms');
  report(`p99_${name}`, median(runs.map((run) => run.latency.p99)), 'ms');
}

function ratio(kind: Kind, other: Kind): number {
  return median(
    passes.map((round) => round[kind].requests.average / round[other].requests.average),
  );
}

async function start(kind: Kind): Promise<Server> {
  const child = fork(new URL('ingest-server.ts', import.meta.url), [kind, TOKEN]);
  const [port] = (await once(child, 'message')) as [number];
  return { child, url: `http://127.0.0.1:${port}` };
}

async function load(kind: Kind, duration: number): Promise<Result> {
  const server = servers.get(kind);
  if (server === undefined) throw new Error(`no server: "${kind}"`);
  const result = await autocannon({
    url: server.url,
    connections: CONNECTIONS,
    duration,
    requests: [
      {
        method: 'POST',
        path: '/api/v1/events',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${TOKEN}` },
        setupRequest: (request) => ({ ...request, body: nextBody() }),
      },
    ],
  });
  if (result.non2xx + result.errors === 0 && result['2xx'] > 0) return result;
  throw new Error(`${kind}: ${result.non2xx} refused, ${result.errors} failed`);
}

/** Ten events that nobody has sent before. */
function nextBody(): string {
  const end = Math.floor(Date.now() / 60_000) * 60_000;
  const events = Array.from({ length: EVENTS_PER_BODY }, () => {
    serial += 1;
    return {
      tenant: `tenant-${serial % 1000}`,
      metric: 'tokens_used',
      quantity: 1500.25,
      window_start: new Date(end - 60_000).toISOString(),
      window_end: new Date(end).toISOString(),
      project: 'research',
      resource_id: `job-${serial}`,
      dimensions: { model: 'large', tenant_cluster: `cluster-${serial % 100}` },
    };
  });
  return JSON.stringify({ events });
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function report(figure: string, value: number, unit: string): void {
  const of = `${CONNECTIONS} connections, ${EVENTS_PER_BODY} events a body`;
  const rounded = Math.round(value * 1000) / 1000;
  console.log(JSON.stringify({ bench: 'ingest', figure, value: rounded, unit, of }));
}
