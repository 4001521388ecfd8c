import { BILLING_STATES, type BillingState } from '../../../settings/settings.ts';
import { type Alert, ALERT_SUBJECT, type Settlement } from '../../../destinations/alerts.ts';
import type { DestinationType } from '../../../model/destination-type.ts';

/**
 * The latest state that one source gave a tenant: a billing system about one subject, or the
 * tenant's budget.
 */
export interface SourceEntry {
  /** A billing system, or {@link BUDGET}. */
  readonly provider: DestinationType;
  readonly subject: string;
  readonly state: BillingState;
  readonly eventType: string;
  readonly reason: string;
  /** When it happened at the source, milliseconds since the epoch. */
  readonly at: number;
  readonly ended?: true;
}

/**
 * The `provider` of the entry of a budget (docs/how-to/budgets.md#at-the-limit). No billing
 * system's folder has the name.
 */
export const BUDGET = 'budget';
const BUDGET_SUBJECT = 'limit';

/** The state that a budget gives its tenant. */
export interface BudgetStatement {
  readonly tenant: string;
  readonly state: Extract<BillingState, 'active' | 'warning' | 'suspended'>;
  /** For people, without control characters and at most 256 characters. Not shown for `active`. */
  readonly reason: string;
}

/** A state that a person set. It counts until it is cleared. */
export interface ManualState {
  readonly state: BillingState;
  readonly reason: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** The billing record of one tenant. Immutable, and in its stored form. */
export interface TenantRecord {
  readonly tenant: string;
  readonly manual?: ManualState;
  readonly entries: readonly SourceEntry[];
  /** Per billing system, until when a payment settled subjects that have no entry yet. */
  readonly settled: Readonly<
    Partial<Record<DestinationType, Readonly<Partial<Record<Settlement, number>>>>>
  >;
  /** Since when the effective state is unchanged, by the operator's clock. */
  readonly since: number;
}

/** The state in force and its source. */
export interface EffectiveState {
  readonly state: BillingState;
  readonly reason: string;
  /** `manual`, or the type of destination and the subject, as in `<type>:subscription/sub_1`. */
  readonly source: string;
  readonly eventType: string;
}

export type Transition =
  | { readonly kind: 'applied'; readonly record: TenantRecord }
  /** A newer state of the subject is known. */
  | { readonly kind: 'stale'; readonly record: TenantRecord };

/** An alert with a time, and with its state after the rules. */
export interface StatedAlert extends Alert {
  readonly state: BillingState;
  readonly at: number;
}

/** Most entries of one tenant. The least severe ones go first. */
const MOST_ENTRIES = 200;

/**
 * How long an entry that is `active` is retained, so that an older message that arrives late
 * changes nothing. Longer than any billing system repeats a message.
 */
const ACTIVE_RETENTION_MS = 35 * 86_400_000;

const NO_STATE: EffectiveState = { state: 'active', reason: '', source: '', eventType: '' };

export function newRecord(tenant: string, now: number): TenantRecord {
  return { tenant, entries: [], settled: {}, since: now };
}

/** The most severe state; a manual one overrides all (docs/how-to/enforcement.md#states). */
export function effectiveState({ manual, entries }: TenantRecord): EffectiveState {
  if (manual !== undefined) {
    const { state, reason } = manual;
    return { state, reason, source: 'manual', eventType: 'manual' };
  }
  const counting = entries.filter((entry) => counts(entry, entries));
  const [worst] = counting.toSorted(byWeight);
  if (worst === undefined || worst.state === 'active') return NO_STATE;
  const { state, reason, provider, subject, eventType } = worst;
  return { state, reason, source: `${provider}:${subject}`, eventType };
}

/** The entries that count and have a state other than `active`. */
export function troublesOf({ entries }: TenantRecord): readonly SourceEntry[] {
  return entries.filter((entry) => entry.state !== 'active' && counts(entry, entries));
}

/**
 * Returns true when an alert changes the known state of its subject. `active` for an unknown
 * subject changes nothing.
 */
export function isNews(record: TenantRecord | undefined, alert: StatedAlert): boolean {
  const { provider, subject, state, ended } = alert;
  const own = record?.entries.filter((entry) => entry.provider === provider) ?? [];
  const known = own.find((entry) => entry.subject === subject);
  if (known !== undefined) return known.state !== state || known.ended !== ended;
  // A running subscription replaces one that has ended.
  return state !== 'active' || own.some((entry) => entry.ended === true);
}

/**
 * Applies an alert. Of two alerts of one subject the newer one wins, by the billing system's time.
 * At equal times the more severe state wins: times in whole seconds leave the order of one second
 * open.
 */
export function applyAlert(record: TenantRecord, alert: StatedAlert, now: number): Transition {
  const { provider, subject, state, at } = alert;
  const settledAt = settledUntil(record, alert);
  const before = record.entries.find((e) => e.provider === provider && e.subject === subject);
  if (before?.ended === true && alert.ended !== true) {
    // The last invoice of an ended subscription does not revive it, but its payment counts.
    const paid = settle(record, alert);
    return paid === record
      ? { kind: 'stale', record }
      : { kind: 'applied', record: dated(record, paid, now) };
  }
  const isOlder = before !== undefined && isOutdone(alert, before);
  if (isOlder || (state !== 'active' && at < settledAt)) return { kind: 'stale', record };
  const entry: SourceEntry = {
    provider,
    subject,
    state,
    eventType: alert.type,
    reason: alert.reason,
    at,
    ...(alert.ended === true && { ended: true }),
  };
  const others = record.entries.filter((each) => each !== before);
  const settled = settle({ ...record, entries: [...others, entry] }, alert);
  return { kind: 'applied', record: dated(record, pruned(settled, now), now) };
}

/** Sets or, with undefined, clears the manual state. */
export function applyManual(
  record: TenantRecord,
  manual: ManualState | undefined,
  now: number,
): TenantRecord {
  const { manual: _, ...rest } = record;
  return dated(record, manual === undefined ? rest : { ...rest, manual }, now);
}

/** The entry of the tenant's budget; undefined if there is none. */
export function budgetEntry(record: TenantRecord | undefined): SourceEntry | undefined {
  return record?.entries.find(({ provider }) => provider === BUDGET);
}

/** Applies the budget's state, in its own entry that alerts of billing systems do not change. */
export function applyBudget(
  record: TenantRecord,
  stated: BudgetStatement,
  now: number,
): TenantRecord {
  const others = record.entries.filter(({ provider }) => provider !== BUDGET);
  if (stated.state === 'active') return dated(record, { ...record, entries: others }, now);
  const { state, reason } = stated;
  const entry: SourceEntry = {
    provider: BUDGET,
    subject: BUDGET_SUBJECT,
    state,
    eventType: 'budget.limit',
    reason,
    at: now,
  };
  return dated(record, { ...record, entries: [...others, entry] }, now);
}

/** True when the record contains nothing worth storing. */
export function isEmpty(record: TenantRecord): boolean {
  return record.manual === undefined && record.entries.length === 0;
}

function isOutdone(alert: StatedAlert, before: SourceEntry): boolean {
  // Nothing follows the end of a subscription, even with a later time.
  if (alert.ended === true && before.ended !== true) return false;
  if (alert.at !== before.at) return alert.at < before.at;
  // Only a test sends a failed payment and a success of one moment. The more severe one wins.
  return alert.state !== 'active' && compareSeverity(alert.state, before.state) < 0;
}

/**
 * Returns false for an ended subscription whose customer has another that runs: a change of plan
 * ends one and begins another.
 */
function counts(entry: SourceEntry, entries: readonly SourceEntry[]): boolean {
  if (entry.ended !== true) return true;
  return !entries.some(
    (other) =>
      other.provider === entry.provider &&
      other.ended !== true &&
      other.subject.startsWith('subscription/'),
  );
}

function byWeight(a: SourceEntry, b: SourceEntry): number {
  return compareSeverity(b.state, a.state) || b.at - a.at;
}

/** Ends the subjects that a payment settles: those of its kind that are not newer. */
function settle(record: TenantRecord, alert: StatedAlert): TenantRecord {
  const { settles, provider, at } = alert;
  if (settles === undefined || alert.state !== 'active') return record;
  const entries = record.entries.map((entry): SourceEntry => {
    const isMeant = entry.provider === provider && entry.at <= at && isSettledBy(settles, entry);
    if (!isMeant || entry.state === 'active') return entry;
    const { ended: _, ...rest } = entry;
    return { ...rest, state: 'active', eventType: alert.type, reason: alert.reason, at };
  });
  const before = record.settled[provider];
  const until = Math.max(at, before?.[settles] ?? 0);
  const settled = { ...record.settled, [provider]: { ...before, [settles]: until } };
  return { ...record, entries, settled };
}

function isSettledBy(settles: Settlement, { subject }: { readonly subject: string }): boolean {
  return settles === 'all' || subject.startsWith(ALERT_SUBJECT);
}

function settledUntil(record: TenantRecord, alert: StatedAlert): number {
  const settled = record.settled[alert.provider];
  const all = settled?.all ?? 0;
  return isSettledBy('alerts', alert) ? Math.max(all, settled?.alerts ?? 0) : all;
}

function pruned(record: TenantRecord, now: number): TenantRecord {
  const retained = record.entries
    .filter((entry) => entry.state !== 'active' || isLasting(entry, now))
    .toSorted(byWeight)
    .slice(0, MOST_ENTRIES);
  return { ...record, entries: retained };
}

/** An entry of a running subscription is retained while it runs: see {@link counts}. */
function isLasting({ subject, at }: SourceEntry, now: number): boolean {
  return subject.startsWith('subscription/') || now - at < ACTIVE_RETENTION_MS;
}

/** Sets `since` when the effective state changed. */
function dated(before: TenantRecord, after: TenantRecord, now: number): TenantRecord {
  const same = effectiveState(before).state === effectiveState(after).state;
  return { ...after, since: same ? before.since : now };
}

/** Above 0 when `a` is more severe than `b`. */
function compareSeverity(a: BillingState, b: BillingState): number {
  return BILLING_STATES.indexOf(a) - BILLING_STATES.indexOf(b);
}
