import type { UsageEvent } from '../../../operator/model/event.ts';
import { startFakeMetronome } from '../../fakes/metronome/metronome.ts';
import { invoiceItems } from '../../fakes/metronome/usage.ts';
import { type StandIn, TRUE_TIME_HEADER } from './stand-in.ts';

export const METRONOME_TOKEN = 'faults';
export const METRONOME_RATE_CARD = 'standard';

/**
 * Metronome, which remembers ids for 34 days. What no contract covers, or no metric counts, is not
 * billed; what two contracts cover is billed twice.
 */
export async function startMetronome(): Promise<StandIn> {
  const metronome = await startFakeMetronome({
    apiToken: METRONOME_TOKEN,
    keepsRequests: false,
    timeOf: ({ headers, at }) => Number(headers[TRUE_TIME_HEADER] ?? at),
  });
  metronome.state.rateCards.push({
    id: metronome.state.nextId(),
    name: METRONOME_RATE_CARD,
    created_at: new Date(0).toISOString(),
    aliases: [],
    fiat_credit_type: { id: metronome.state.nextId(), name: 'USD (cents)' },
  });
  return {
    url: metronome.url,
    billed: () =>
      invoiceItems(metronome.state).map(({ event }) => ({
        id: event.transaction_id,
        content: text(
          event.event_type,
          Date.parse(event.timestamp),
          event.properties['value'],
          event.properties['sku'],
        ),
      })),
    repeats: () => metronome.state.repeats,
    close: () => metronome.close(),
  };
}

/** What Metronome should have of an event. */
export function metronomeContent({ metric, window_start, quantity, sku }: UsageEvent): string {
  return text(metric, Date.parse(window_start), quantity, sku);
}

function text(type: string, at: number, quantity: unknown, sku: unknown): string {
  return JSON.stringify([type, at, quantity, sku]);
}
