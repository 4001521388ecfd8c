/**
 * One of several processes that have a stream open: what is pushed to it is appended, the cursor is moved as long as
 * that is not refused, whatever its clock says of the lease, and from a line with the number of a term on standard input on
 * it closes window after window, until that is refused. It ends with standard input. Arguments: port and name of the database, the stream,
 * LEDGER_DURABILITY, its label, and `fenced` unless it writes windows and cursors by no right of its own.
 */
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { Ledger, LedgerFailure } from '../../../../operator/ledger/ledger.ts';
import { joinTestStream } from '../../../../operator/ledger/testing/postgres-replicas.ts';
import { TEST_USER } from '../../../../operator/ledger/testing/postgres-server.ts';
import { insist, tell } from '../speech.ts';
import { pushedTo, windowEnd, windowEvents } from '../windows.ts';
import { closedInKey, DESTINATION, FEEDER, movedByKey } from './messages.ts';

const ANSWER_MS = 1_500;
const PAUSE_MS = 20;
const REPEAT_EVERY = 5;

const [port = '', name = '', stream = '', durability = 'standby', label = '', fence = ''] =
  process.argv.slice(2);
const ending = new AbortController();
const { signal } = ending;
const replica = await joinTestStream(
  { host: '127.0.0.1', port: Number(port), name, user: TEST_USER, tls: { mode: 'disable' } },
  {
    source: stream,
    region: stream,
    durability: durability === 'storage' ? 'storage' : 'standby',
    answerMs: ANSWER_MS,
    address: label,
  },
);
const { ledger, open, leases } = replica;
/** What windows are written to. */
const windows = fence === 'fenced' ? ledger : open;

/** Nothing more is to be expected of the ledger. */
function stop({ cause, message }: LedgerFailure): void {
  tell({ kind: 'stopped', cause, message });
  ending.abort();
}

async function meter(): Promise<void> {
  const input = createInterface({ input: process.stdin });
  input.on('close', () => ending.abort());
  for await (const line of input) {
    const term = Number(line);
    const led = await insist(() => replica.lead(), signal);
    if (led?.kind === 'failed') stop(led);
    const found = led === undefined ? undefined : await newestInJournal();
    if (found === undefined) return;
    tell({ kind: 'leads', term, found });
    await closeWindows(term, found + 1);
  }
}

/** Undefined when the process is to end. */
async function newestInJournal(): Promise<number | undefined> {
  while (!signal.aborted) {
    try {
      return Number((await ledger.record('journal')) ?? -1);
    } catch {
      await delay(PAUSE_MS);
    }
  }
  return undefined;
}

async function closeWindows(term: number, first: number): Promise<void> {
  for (let window = first; ; window++) {
    const value = String(window);
    const batch = {
      events: windowEvents(window),
      records: [
        { key: 'journal', value },
        { key: closedInKey(term), value },
      ],
      windowEnd: windowEnd(window),
    };
    const stored = await insist(() => windows.append(batch), signal);
    if (stored === undefined) return;
    if (stored.kind === 'failed') {
      if (stored.cause === 'fenced') tell({ kind: 'fenced', term });
      else stop(stored);
      return;
    }
    const repeats = window % REPEAT_EVERY === 0 ? await repeat(Math.floor(window / 2)) : 0;
    tell({ kind: 'closed', term, window, head: stored.head, repeats });
  }
}

/** Offers a window once more; gives how many events that were. */
async function repeat(window: number): Promise<number> {
  const events = windowEvents(window);
  const outcome = await insist(() => windows.append({ events }), signal);
  if (outcome?.kind === 'appended' && outcome.outcomes.some((word) => word !== 'duplicate')) {
    tell({ kind: 'wrong', text: `a repeat was ${outcome.outcomes.join(', ')}` });
  }
  return events.length;
}

async function push(): Promise<void> {
  for (let number = 0; !signal.aborted; number++) {
    const events = [pushedTo(label, number)];
    const stored = await insist(() => open.append({ events }), signal);
    if (stored?.kind === 'failed') stop(stored);
    if (stored?.kind === 'appended') tell({ kind: 'pushed', number });
    await delay(PAUSE_MS);
  }
}

/** With every right that was ever given, until it is refused. */
async function feed(): Promise<void> {
  const rights = new Map<number, Ledger | undefined>();
  while (!signal.aborted) {
    const lease = leases.held().get(FEEDER);
    if (lease !== undefined && !rights.has(lease.epoch)) {
      const outcome = await replica.heldBy(lease);
      if (outcome.kind === 'held') {
        rights.set(lease.epoch, fence === 'fenced' ? outcome.ledger : open);
        const at = outcome.ledger.cursors().find(({ destination }) => destination === DESTINATION);
        tell({ kind: 'holds', epoch: lease.epoch, cursor: at?.sequence ?? 0 });
      }
    }
    for (const [epoch, right] of rights) {
      if (right === undefined) continue;
      const cursor = right.head();
      const records = [{ key: movedByKey(label, epoch), value: String(cursor) }];
      const moved = await right.commitCursor(DESTINATION, cursor, { records });
      if (moved.kind === 'written') tell({ kind: 'moved', epoch, cursor });
      else if (moved.cause === 'fenced') {
        rights.set(epoch, undefined);
        tell({ kind: 'dispossessed', epoch });
      }
    }
    await delay(PAUSE_MS);
  }
}

leases.want([FEEDER]);
tell({ kind: 'joined' });
await Promise.all([leases.run(signal), meter(), push(), feed()]);
await ledger.close();
