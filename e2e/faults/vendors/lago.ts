import { COLLECTOR_METRICS } from '../../../operator/model/catalog.ts';
import type { UsageEvent } from '../../../operator/model/event.ts';
import type { EventStore } from '../../fakes/lago/events.ts';
import { startFakeLago } from '../../fakes/lago/lago.ts';
import { unbilledEvents } from '../../fakes/lago/usage.ts';
import type { StandIn } from './stand-in.ts';

export const LAGO_API_KEY = 'faults';

const FIELDS = new Map(
  COLLECTOR_METRICS.map(({ code, aggregationField }) => [code, aggregationField]),
);

/** Lago, which remembers ids for ever. What it took and would not bill does not count as billed. */
export async function startLago(store: EventStore): Promise<StandIn> {
  const lago = await startFakeLago({ apiKey: LAGO_API_KEY, store });
  return {
    url: lago.url,
    billed: () => {
      const inVain = new Set(unbilledEvents(lago.state));
      const billed = [...lago.state.events.values()].filter((event) => !inVain.has(event));
      return billed.map(({ transaction_id: id, code, at, properties }) => ({
        id,
        content: text(code, at, properties[FIELDS.get(code) ?? ''], properties['sku']),
      }));
    },
    repeats: () => 0,
    close: () => lago.close(),
  };
}

/** What Lago should have of an event. */
export function lagoContent({ metric, window_start, quantity, sku }: UsageEvent): string {
  return text(metric, Date.parse(window_start), quantity, sku);
}

function text(code: string, at: number, quantity: unknown, sku: unknown): string {
  return JSON.stringify([code, at, quantity, sku]);
}
