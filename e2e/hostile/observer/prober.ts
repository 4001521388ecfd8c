import { type ClientRequest, request } from 'node:http';
import type { ProberReport, ProbesOptions } from './probes.ts';
import { mainWaitedMs } from './processor-time.ts';

/**
 * Asks the operator's probes as the kubelet does, and for an honest tenant's usage as its page does, in a process of its own
 * that does nothing else.
 */
const { address, reader } = JSON.parse(process.argv[2] ?? '{}') as ProbesOptions;
const EVERY_MS = 250;
const READ_EVERY_MS = 1_000;
/** The StatefulSet's `timeoutSeconds`, without the time in which the operator had no processor. */
const TIMEOUT_MS = 5_000;
/** Unanswered ones at a time: the kubelet has one, and what is stuck needs no further ones. */
const MOST_OPEN = 8;
const READ = '/api/v1/usage?group_by=metric,day';
const TOO_LATE = `no answer in ${TIMEOUT_MS} ms`;

let report: ProberReport = { sent: 0, unanswered: [], slowestMs: 0 };
let pid: number | undefined;
const open = new Set<Open>();

setInterval(() => {
  for (const requested of open) if (took(requested) > TIMEOUT_MS) end(requested, TOO_LATE);
  if (pid !== undefined && open.size < MOST_OPEN)
    for (const path of ['/healthz', '/readyz']) probe(path, `${address}${path}`);
}, EVERY_MS);

setInterval(() => {
  const isOpen = [...open].some(({ path }) => path === READ);
  if (pid === undefined || isOpen) return;
  probe(READ, `${reader.address}${READ}`, { authorization: `Bearer ${reader.token}` });
}, READ_EVERY_MS);

/** One question that has no answer yet. */
interface Open {
  readonly path: string;
  readonly sent: ClientRequest;
  readonly begun: number;
  /** Of whom it is asked, and for how long that one had been without a processor then. */
  readonly pid: number | undefined;
  readonly waited: number;
}

function probe(path: string, url: string, headers: Readonly<Record<string, string>> = {}): void {
  const sent = request(url, { agent: false, headers });
  const requested: Open = { path, sent, begun: performance.now(), pid, waited: mainWaitedMs(pid) };
  open.add(requested);
  sent.once('response', (answer) => {
    answer.resume();
    answer.once('error', () => undefined);
    end(requested, answer.statusCode === 200 ? undefined : `HTTP ${answer.statusCode}`);
  });
  sent.once('error', (error) => end(requested, error.message));
  sent.end();
}

/** How long it has taken so far, without the time in which the operator had no processor. */
function took(requested: Open): number {
  return performance.now() - requested.begun - withoutProcessor(requested);
}

function withoutProcessor(requested: Open): number {
  return Math.max(0, mainWaitedMs(requested.pid) - requested.waited);
}

function end(requested: Open, problem?: string): void {
  if (!open.delete(requested)) return;
  requested.sent.destroy();
  // What is cut off by a kill that was planned does not count, nor does what the server gave up on
  // because most of the time it had no processor to read the request with.
  const isKnown = problem !== undefined && requested.pid === pid;
  const isOurs = isKnown && (problem === TOO_LATE || took(requested) > withoutProcessor(requested));
  report = {
    ...report,
    sent: report.sent + 1,
    slowestMs: Math.max(report.slowestMs, took(requested)),
    unanswered: isOurs
      ? [...report.unanswered, `${requested.path}: ${problem}`]
      : report.unanswered,
  };
}

process.on('message', (order: { readonly id: number; readonly up?: number | 'down' }) => {
  if (order.up !== undefined) pid = order.up === 'down' ? undefined : order.up;
  process.send?.({ id: order.id, report });
  report = { sent: 0, unanswered: [], slowestMs: 0 };
});
process.on('disconnect', () => process.exit());
process.send?.({ id: 0 });
