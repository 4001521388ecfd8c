import type { Delivery } from '../../../operator/delivery/delivery.ts';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import { encodeEvent } from '../../../operator/model/event.ts';
import type { LedgerEnd } from './messages.ts';

const PAGE = 1_000;

/** Everything that is in a ledger, and every word of damage that it has to say. */
export async function readLedger(
  ledger: Ledger,
  delivery: Delivery,
  balances?: LedgerEnd['balances'],
): Promise<{ readonly ledger: LedgerEnd; readonly reported: readonly string[] }> {
  const reported: string[] = [];
  const events: (readonly [number, string, string])[] = [];
  for (let after = ledger.lowWater(); ; ) {
    const page = await ledger.read(after, PAGE);
    if (page.kind === 'failed') {
      reported.push(page.message);
      break;
    }
    if (page.events.length === 0) break;
    for (const { sequence, event } of page.events) {
      events.push([sequence, event.id, encodeEvent(event)]);
    }
    after = page.lastSequence;
  }
  const { errors } = await ledger.verify();
  const deadLetters = new Set<string>();
  for (const { name } of delivery.statuses()) {
    const page = await delivery.deadLetters(name, 0, PAGE);
    for (const letter of page?.deadLetters ?? []) deadLetters.add(`${name}: ${letter.reason}`);
  }
  return {
    ledger: {
      events,
      deadLetters: [...deadLetters],
      horizon: ledger.stats().horizon,
      balances,
    },
    reported: [...new Set([...reported, ...errors, ...ledger.stats().problems])],
  };
}
