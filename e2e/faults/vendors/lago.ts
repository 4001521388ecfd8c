import { BUILT_IN_METRICS } from '../../../operator/model/catalog.ts';
import type { UsageEvent } from '../../../operator/model/event.ts';
import type { EventStore } from '../../fakes/lago/events.ts';
import type { AccountEvent } from '../../fakes/account.ts';
import { accountOf } from '../../fakes/lago/account.ts';
import { startFakeLago } from '../../fakes/lago/lago.ts';
import { type StandIn, TRUE_TIME_HEADER } from './stand-in.ts';

export const LAGO_API_KEY = 'faults';

const FIELDS = new Map(
  BUILT_IN_METRICS.map(({ code, aggregationField }) => [code, aggregationField]),
);

/**
 * Lago, which remembers ids for ever. What it took and no invoice will have does not count as billed, unless it
 * came too late for one; what two invoices have is billed twice.
 */
export async function startLago(store: EventStore): Promise<StandIn> {
  let now = 0;
  const lago = await startFakeLago({
    apiKey: LAGO_API_KEY,
    store,
    keepsRequests: false,
    timeOf: ({ headers, at }) => {
      now = Number(headers[TRUE_TIME_HEADER] ?? at);
      return now;
    },
  });
  return {
    url: lago.url,
    billed: () => {
      const { events } = accountOf(lago.state, now);
      const byId = new Map(events.map((one) => [one.id, one]));
      return [...lago.state.events.values()].flatMap((event) => {
        const { lago_id, transaction_id: id, code, at, properties } = event;
        const content = text(code, at, properties[FIELDS.get(code) ?? ''], properties['sku']);
        return Array.from({ length: timesBilled(byId.get(lago_id)) }, () => ({ id, content }));
      });
    },
    repeats: () => 0,
    close: () => lago.close(),
  };
}

const TOO_LATE = 'it came after its invoice was final';

function timesBilled(event: AccountEvent | undefined): number {
  if (event === undefined) return 0;
  const { lines, fate } = event;
  return fate.kind === 'never' && fate.because !== TOO_LATE ? 0 : Math.max(1, lines);
}

/** What Lago should have of an event. */
export function lagoContent({ metric, window_start, quantity, sku }: UsageEvent): string {
  return text(metric, Date.parse(window_start), quantity, sku);
}

function text(code: string, at: number, quantity: unknown, sku: unknown): string {
  return JSON.stringify([code, at, quantity, sku]);
}
