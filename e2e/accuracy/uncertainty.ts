import type { ReceivedEvent } from '../long/received.ts';
import { type ExplainedObject, explain } from './explained.ts';
import type { Blind } from './figures.ts';
import { accountOf, type Undated } from './undated.ts';

/** How far off events say that what nobody saw may be. */
export interface Uncertainty {
  /** Of all events, seconds. */
  readonly most: number;
  /** Of those in whose window no watch had to begin anew: what was missed was told by watches that went on. Most uncertain first. */
  readonly resumed: readonly UncertainEvent[];
}

interface UncertainEvent {
  readonly seconds: number;
  readonly event: ReceivedEvent;
}

export function uncertaintyOf(
  events: readonly ReceivedEvent[],
  blinds: readonly Blind[],
): Uncertainty {
  const relisted = blinds.filter(({ kinds }) => kinds.length > 0);
  const uncertain = events
    .map((event) => ({ event, seconds: Number(event.properties?.['uncertain_seconds'] ?? 0) }))
    .filter(({ seconds }) => seconds > 0)
    .toSorted((a, b) => b.seconds - a.seconds);
  const resumed = uncertain.filter(({ event: { window_start: start, window_end: end } }) =>
    relisted.every((blind) => Date.parse(end) <= blind.from || Date.parse(start) >= blind.to),
  );
  return { most: uncertain[0]?.seconds ?? 0, resumed };
}

/** What the most uncertain events of watches that resumed are of, for whoever asks why. */
export interface UncertainChange {
  readonly uncertain_seconds: number;
  readonly metric: string;
  readonly tenant_cluster: string;
  /** What happened to it while the operator was down; empty where nobody did anything to it then. */
  readonly what: readonly string[];
  readonly window_start: string;
  readonly window_end: string;
  /** The stop that ended last before the end of the window; its times are RFC 3339. */
  readonly stopped?: { readonly from: string; readonly to: string };
  /** That began or ended within the window. */
  readonly objects: readonly Pick<ExplainedObject, 'kind' | 'name' | 'from' | 'to'>[];
}

/** So many are named, each of another account. */
const NAMED = 3;

/** Asks the operator at `address` what stands behind the most uncertain of them. */
export async function nameUncertain(
  resumed: readonly UncertainEvent[],
  address: string,
  truth: readonly Undated[],
  blinds: readonly Blind[],
): Promise<readonly UncertainChange[]> {
  const byAccount = Map.groupBy(resumed, ({ event }) => accountOfEvent(event));
  const worst = [...byAccount].flatMap(([account, [first]]) =>
    first ? [{ account, ...first }] : [],
  );
  return Promise.all(
    worst.slice(0, NAMED).map(async ({ account, seconds, event }) => {
      const { metric, window_start, window_end, dimensions } = event;
      const explained = await explain(address, event.id);
      const objects = typeof explained === 'string' ? [] : explained.objects;
      const things = truth.filter(({ accounts }) => accounts.includes(account));
      const stopped = blinds.findLast(({ down }) => down && down.to < Date.parse(window_end))?.down;
      return {
        uncertain_seconds: seconds,
        metric,
        tenant_cluster: dimensions?.['tenant_cluster'] ?? '',
        what: [...new Set(things.map(({ what }) => what))],
        window_start,
        window_end,
        ...(stopped && { stopped: { from: iso(stopped.from), to: iso(stopped.to) } }),
        objects: objects
          .filter(({ from, to }) => from !== window_start || to !== window_end)
          .map(({ kind, name, from, to }) => ({ kind, name, from, to })),
      };
    }),
  );
}

function accountOfEvent({ dimensions }: ReceivedEvent): string {
  const part = dimensions?.['node'] ?? dimensions?.['namespace'] ?? '';
  return accountOf(dimensions?.['tenant_cluster'] ?? '', part);
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
