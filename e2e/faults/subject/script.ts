import type { Delivery } from '../../../operator/delivery/delivery.ts';
import type { AppendOutcome, Ledger, LedgerFailure } from '../../../operator/ledger/ledger.ts';
import type { Misbehaviour } from '../../fakes/misbehaviour.ts';
import type { DestinationName } from '../destinations.ts';
import type { Action } from '../plan.ts';
import { TRUE_TIME_HEADER } from '../vendors/stand-in.ts';
import { eventsOf, WINDOW_MS } from '../workload.ts';
import { BEGINNING, type IdleClock } from './idle-clock.ts';
import type { LiveBalances } from './balances.ts';
import type { LifeOptions } from './messages.ts';

export interface ScriptOptions extends LifeOptions {
  readonly ledger: Ledger;
  readonly delivery: Delivery;
  readonly clock: IdleClock;
  readonly balances: LiveBalances | undefined;
}

/** What happens to the operator within one life. */
export interface Script {
  /** Does everything in turn. Gives why the ledger has stopped for good, if it has. */
  run(): Promise<LedgerFailure | undefined>;
  /** Waits until everything is delivered; gives what is not, when that takes too long. */
  drain(): Promise<string | undefined>;
}

const NOTHING = Promise.resolve();
const RETRY_MS = 5_000;
const TRIES = 3;
const CHECK_MS = 60_000;
const DRAIN_MS = 14 * 86_400_000;

export function createScript(options: ScriptOptions): Script {
  const { order, ledger, delivery, clock, balances, disk, report } = options;
  const waiting: number[] = [...order.unacknowledged];
  let stopped: LedgerFailure | undefined;

  const acknowledged = (number: number, outcome: Extract<AppendOutcome, { kind: 'appended' }>) => {
    const kinds = new Set(outcome.outcomes);
    if (kinds.size > 1 || kinds.has('conflict')) {
      const text = `request ${number} was stored in part: ${[...kinds].join(', ')}`;
      report({ kind: 'wrong', text });
    }
    report({ kind: 'acknowledged', request: number });
  };
  const append = async (number: number): Promise<boolean> => {
    const request = order.requests[number];
    if (request === undefined) throw new RangeError(`no such request: ${number}`);
    const windowEnd = BEGINNING + request.windowStart + WINDOW_MS;
    // A repeat that the ledger could not recognise any more is refused by ingest and never measured again.
    if (windowEnd <= ledger.stats().horizon) return true;
    for (let tries = 0; tries < TRIES; tries += 1) {
      const outcome = await ledger.append({
        events: eventsOf(order.seed, number, request),
        ...(request.kind === 'window' && {
          windowEnd,
          records: [{ key: 'journal', value: String(number) }],
        }),
      });
      if (outcome.kind === 'appended') {
        acknowledged(number, outcome);
        return true;
      }
      if (outcome.cause === 'fenced' || outcome.cause === 'corrupt') stopped = outcome;
      if (stopped !== undefined) return false;
      await clock.sleep(RETRY_MS);
    }
    return false;
  };
  /** In order, as a collector does that goes on only when a window is stored. */
  const appendWaiting = async (): Promise<void> => {
    for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
      if (!(await append(next))) return;
      waiting.shift();
    }
  };

  const act = async (action: Action): Promise<void> => {
    switch (action.do) {
      case 'append':
        waiting.push(action.request);
        return appendWaiting();
      case 'append-together': {
        await appendWaiting();
        const stored = await Promise.all(action.requests.map(append));
        waiting.push(...action.requests.filter((_, index) => stored[index] !== true));
        return;
      }
      case 'pass':
        return clock.sleep(action.ms);
      case 'step-clock':
        return clock.step(action.ms);
      case 'retain':
        return ledger.retain(clock.now());
      case 'weather':
        return clock.during(() => setWeather(urlOf(action.destination), action, clock));
      case 'disk-room':
        return disk.setRoom(action.bytes);
      case 'fail-sync':
        return disk.failSync(action.nth, action.times ?? 1);
      case 'second-instance':
        return clock.during(async () => clock.catchUp(await options.wait(action.lockDeleted)));
    }
  };
  const urlOf = (name: DestinationName): string | undefined =>
    order.destinations.find((destination) => destination.name === name)?.url;

  return {
    run: async () => {
      if (order.last) {
        for (const { url } of order.destinations) {
          await clock.during(() => setWeather(url, { orders: [] }, clock));
        }
      }
      // What fails is tried again in the next round, as by the operator.
      const count = (): Promise<void> => balances?.round().catch(() => undefined) ?? NOTHING;
      await count();
      await appendWaiting();
      for (const action of order.actions) {
        if (stopped !== undefined) break;
        await act(action);
        await count();
      }
      if (stopped === undefined) await appendWaiting();
      return stopped;
    },
    drain: async () => {
      const deadline = clock.monotonic() + DRAIN_MS;
      for (;;) {
        const problem = undelivered(ledger, delivery, order.destinations.length);
        if (problem === undefined && waiting.length === 0) return undefined;
        if (clock.monotonic() > deadline) return problem ?? `${waiting.length} requests not stored`;
        await clock.sleep(CHECK_MS);
        await appendWaiting();
      }
    },
  };
}

function undelivered(ledger: Ledger, delivery: Delivery, count: number): string | undefined {
  const statuses = delivery.statuses();
  if (statuses.length < count) return 'destinations have not started';
  for (const { name, cursor, parked, lastError } of statuses) {
    if (cursor === ledger.head() && parked === 0) continue;
    return `${name} stands at ${cursor} of ${ledger.head()}, ${parked} parked: ${lastError ?? ''}`;
  }
  return undefined;
}

/** Tells a stand-in how to behave from now on. Without the true time it would go on to the day on which the suite runs. */
async function setWeather(
  url: string | undefined,
  { orders, halves = 0 }: { readonly orders: readonly Misbehaviour[]; readonly halves?: number },
  clock: IdleClock,
): Promise<void> {
  if (url === undefined) return;
  const headers = { [TRUE_TIME_HEADER]: String(clock.trueTime()) };
  const control = (path: string, body: string) =>
    fetch(new URL(`/_fake/${path}`, url), { method: 'POST', headers, body });
  await control('behave', '');
  await control('halves', String(halves));
  for (const order of orders) await control('misbehave', JSON.stringify(order));
}
