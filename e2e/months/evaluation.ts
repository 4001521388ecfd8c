import { createDeliveryRecords } from '../../operator/delivery/records/delivery-records.ts';
import type { StoredLine } from '../../operator/delivery/records/late-line.ts';
import type { Ledger } from '../../operator/ledger/ledger.ts';
import type { UsageEvent } from '../../operator/model/event.ts';
import type { AccountEvent, Fate } from '../fakes/account.ts';
import { STOPPED_DRAFT } from '../fakes/stripe/account.ts';
import type { Engine } from './engine.ts';
import type { MonthVendor } from './vendors.ts';

const NAME = 'bills';

/** What the months of a plan came to. */
export interface MonthReport {
  readonly events: number;
  /** Events that the vendor does not have, that are no dead letters, and that are not billed apart. */
  readonly lost: number;
  /** Events that the vendor counts twice. */
  readonly duplicated: number;
  /** Units that are on no invoice, or on two, that no condition reports. */
  readonly invoiceMismatch: number;
  readonly wrong: readonly string[];
}

/** Holds what was used against what the vendor has, and what its invoices have against what is told of them. */
export async function decision(
  engine: Engine,
  vendor: MonthVendor,
  offered: ReadonlyMap<string, UsageEvent>,
  withoutLine: boolean,
): Promise<MonthReport> {
  const [status] = engine.delivery().statuses();
  const wrong: string[] = [];
  if (status?.lagEvents !== 0 || status.parked > 0 || status.planChanges.length > 0) {
    wrong.push(`not settled in the end: ${JSON.stringify(status)}`);
  }
  const taken = vendor.taken();
  const letters = await engine.delivery().deadLetters(NAME, 0, 10_000);
  const late = await lateLinesOf(engine.ledger);
  const separate = late.flatMap(({ parts }) => parts.map(({ id }) => id));
  wrong.push(...wrongLines(vendor, late, status?.lateRefusals.length ?? 0));

  const times = new Map<string, number>();
  for (const id of [...taken, ...separate]) times.set(id, (times.get(id) ?? 0) + 1);
  const isDead = new Set((letters?.deadLetters ?? []).map(({ event }) => event.id));
  const lost = [...offered.keys()].filter((id) => !times.has(id) && !isDead.has(id));
  const twice = [...times].filter(([, count]) => count > 1);

  const account = vendor.account().events;
  const events = withoutLine ? withoutOneLine(account) : account;
  const hasRefusals = (status?.lateRefusals.length ?? 0) > 0;
  const missing = new Map<string, number>();
  const why = new Map<string, string>();
  for (const [index, { units, lines, fate }] of events.entries()) {
    const id = taken[index] ?? '';
    const event = offered.get(id);
    if (event === undefined) continue;
    const used = Number(event.quantity);
    if (used !== Number(units)) wrong.push(`${id}: ${units} for ${used} that were used`);
    if (lines === 1 || (isStopped(fate) && hasRefusals)) continue;
    const key = `${event.metric} of ${event.tenant}`;
    missing.set(key, (missing.get(key) ?? 0) + used * (1 - lines));
    why.set(key, `${event.id}: ${fate.kind === 'never' ? fate.because : `${lines} lines`}`);
  }
  const reported = new Map<string, number>();
  for (const { metric, tenant, difference } of status?.invoices?.examples ?? []) {
    reported.set(`${metric} of ${tenant}`, -Number(difference));
  }
  let invoiceMismatch = 0;
  for (const key of new Set([...missing.keys(), ...reported.keys()])) {
    const [is, stated] = [missing.get(key) ?? 0, reported.get(key) ?? 0];
    if (Math.abs(is - stated) < 1e-6) continue;
    invoiceMismatch += Math.abs(is - stated);
    wrong.push(`${key}: ${is} on no invoice, ${stated} reported (${why.get(key) ?? 'nothing is'})`);
  }
  return {
    events: offered.size,
    lost: lost.length,
    duplicated: taken.length - new Set(taken).size + twice.length,
    invoiceMismatch: Math.round(invoiceMismatch),
    wrong: [
      ...wrong,
      ...lost.map((id) => `lost: ${id}`),
      ...twice.map(([id, count]) => `${count} times: ${id}`),
    ],
  };
}

/** On a draft that is told by itself, by the condition `LateRefusals`. */
function isStopped(fate: Fate): boolean {
  return fate.kind === 'never' && fate.because === STOPPED_DRAFT;
}

async function lateLinesOf(ledger: Ledger): Promise<readonly StoredLine[]> {
  const found: StoredLine[] = [];
  for await (const line of createDeliveryRecords(ledger, NAME).late()) found.push(line);
  return found;
}

/** What is billed apart is there once, and what is not is told. */
function wrongLines(
  vendor: MonthVendor,
  late: readonly StoredLine[],
  refusals: number,
): readonly string[] {
  const made = vendor.lateLines();
  const known = new Set(late.map(({ id }) => id));
  const strange = made.filter((text) => ![...known].some((id) => text.includes(id)));
  const wrong = strange.map((text) => `unknown late line: ${text}`);
  for (const { id, state, reference } of late) {
    const count = made.filter((text) => text.includes(id)).length;
    const isDone = state === 'billed' && (count === 1 || reference === 'nothing');
    const isReported = state !== 'billed' && count === 0 && refusals > 0;
    if (!isDone && !isReported) wrong.push(`late line ${id}: ${state}, made ${count} times`);
  }
  return wrong;
}

function withoutOneLine(events: readonly AccountEvent[]): readonly AccountEvent[] {
  const index = events.findIndex(({ lines, units }) => lines === 1 && Number(units) > 0);
  const fate = { kind: 'never', because: 'its line was taken away' } as const;
  return events.map((event, at) => (at === index ? { ...event, lines: 0, fate } : event));
}
