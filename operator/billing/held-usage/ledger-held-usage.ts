import type { EventOutcome, Ledger, LedgerFailure, RecordChange } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { sameCharge } from '../../ledger/same-charge.ts';
import type { UsageEvent } from '../../model/event.ts';
import { deriveEventId, EVENT_ID_PREFIX } from '../../model/event-id.ts';
import { quote } from '../../model/validate-event.ts';
import { HeldRecords, type PushedEvent } from './held-records.ts';
import { type HeldDecision, MOST_HELD, type PushOutcome } from './held-usage.ts';
import { SharedLock } from './shared-lock.ts';

/** Events moved in one transaction. */
const CHUNK = 500;
/** Older windows are refused, with all their ids (docs/reference/events.md#pushed-events). */
const MAX_AGE_MS = 34 * 24 * 3_600_000;

/**
 * Appends pushed events to the ledger. Holds those of unknown tenants durably in records, where no
 * destination sees them. They wait until discovery finds the tenant, or somebody releases, renames
 * or discards them (docs/reference/events.md#unknown-tenants).
 */
export class HeldUsage {
  readonly #options;
  readonly #records: HeldRecords;
  readonly #lock = new SharedLock();
  readonly #held = new Map<string, { events: number; since: number }>();
  readonly #admitted = new Map<string, number>();
  /** The tenant of each held id, and of each used id that the ledger lacks in its pushed form. */
  readonly #ids = new Map<string, { readonly kind: 'held' | 'used'; readonly tenant: string }>();

  constructor(options: {
    readonly ledger: Ledger;
    readonly clock: Pick<Clock, 'now'>;
    readonly unknownTenants: () => 'hold' | 'create';
    /** Returns true when discovery knows the tenant. */
    readonly isDiscovered: (tenant: string) => boolean;
    /** Resolves to true when a destination has served the tenant before as a customer. */
    readonly wasServed: (tenant: string) => Promise<boolean>;
    /** Returns true when the collector measures such events of the tenant itself. */
    readonly isMeasuredHere: (event: UsageEvent) => boolean;
  }) {
    this.#options = options;
    this.#records = new HeldRecords(options.ledger);
  }

  /** Reads the records of earlier processes. Call it before the first push. */
  async load(): Promise<void> {
    const { ledger, clock } = this.#options;
    this.#held.clear();
    this.#admitted.clear();
    this.#ids.clear();
    for await (const [tenant, since] of this.#records.admitted()) this.#admitted.set(tenant, since);
    for await (const one of this.#records.held()) this.#noteHeld(one);
    const forgotten: RecordChange[] = [];
    for await (const { event } of this.#records.used()) {
      if (Date.parse(event.window_end) < clock.now() - MAX_AGE_MS) {
        forgotten.push(this.#records.dropUsed(event.id));
      } else this.#ids.set(event.id, { kind: 'used', tenant: event.tenant });
    }
    // A failed write is repeated at the next start.
    if (forgotten.length > 0) await ledger.writeRecords(forgotten);
  }

  /**
   * Appends events in one transaction, or holds them. Changes the records of `sums` in the same
   * transaction; sums of an intake are held beyond {@link MOST_HELD}, because it keeps to
   * {@link room}.
   */
  async push(
    events: readonly UsageEvent[],
    sums?: { readonly records: readonly RecordChange[] },
  ): Promise<PushOutcome> {
    const outcome = await this.#lock.runShared(async () => {
      const isOrdinary = events.every(
        ({ id, tenant }) => this.isKnown(tenant) && !this.#ids.has(id),
      );
      return isOrdinary ? append(this.#options.ledger, events, sums?.records ?? []) : undefined;
    });
    if (outcome === undefined) {
      return this.#lock.runExclusive(() => this.#pushChecked(events, sums));
    }
    return outcome.kind === 'failed' ? outcome : { ...outcome, held: new Map() };
  }

  /** The tenants with held usage, sorted. */
  list(): readonly {
    readonly tenant: string;
    readonly events: number;
    /** When the first of them arrived, milliseconds since the epoch. */
    readonly since: number;
  }[] {
    return [...this.#held]
      .map(([tenant, { events, since }]) => ({ tenant, events, since }))
      .toSorted((a, b) => (a.tenant < b.tenant ? -1 : 1));
  }

  eventsOf(tenant: string): AsyncIterable<PushedEvent> {
    return this.#records.heldOf(tenant);
  }

  /** The tenants with pushed usage, held or not, that discovery does not know, sorted by id. */
  pushedTenants(): readonly {
    readonly id: string;
    /** When its first usage arrived, milliseconds since the epoch. */
    readonly since: number;
  }[] {
    const all = new Map(this.#admitted);
    for (const [id, { since }] of this.#held) all.set(id, Math.min(since, all.get(id) ?? since));
    return [...all]
      .map(([id, since]) => ({ id, since }))
      .filter(({ id }) => !this.#options.isDiscovered(id))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** Appends the held events, and admits all later ones of the tenant. */
  release(tenant: string): Promise<HeldDecision> {
    const at = this.#options.clock.now();
    return this.#decide(tenant, (pushed) => ({ ...pushed, next: pushed.event }), {
      records: [this.#records.putAdmitted(tenant, at)],
      written: () => this.#admitted.set(tenant, this.#admitted.get(tenant) ?? at),
    });
  }

  /** Appends the held events under the name of a known tenant. */
  async rename(tenant: string, to: string): Promise<HeldDecision> {
    const { isMeasuredHere } = this.#options;
    if (tenant === to) return refused(`the same name: to: ${quote(to)}: give another tenant`);
    if (!this.isKnown(to) && !(await this.#options.wasServed(to))) {
      return refused(
        `unknown tenant: to: ${quote(to)}: give a tenant of GET /api/v1/tenants, or release the events as they are`,
      );
    }
    for await (const { event } of this.#records.heldOf(tenant)) {
      if (!isMeasuredHere({ ...event, tenant: to })) continue;
      return refused(
        `measured here by the collector: metric: ${quote(event.metric)}: tenant ${quote(to)} is metered by this operator`,
      );
    }
    return this.#decide(tenant, (pushed) => ({ ...pushed, next: renamed(pushed.event, to) }));
  }

  /** Deletes the held events; their ids stay used. */
  discard(tenant: string): Promise<HeldDecision> {
    return this.#decide(tenant, (pushed) => pushed);
  }

  /** Releases the tenants that are known now, or that the changed setting admits. */
  async releaseKnown(): Promise<void> {
    for (const { tenant } of this.list()) {
      const { isDiscovered, unknownTenants } = this.#options;
      // An admitted tenant with held events: the previous process ended in between.
      const passes = isDiscovered(tenant) || this.#admitted.has(tenant);
      if (passes || unknownTenants() === 'create') await this.release(tenant);
    }
  }

  /** How many more events may be held. */
  room(): number {
    return MOST_HELD - this.#heldEvents();
  }

  /** Whether the events of a tenant are appended without a decision. */
  isKnown(tenant: string): boolean {
    if (this.#held.has(tenant)) return this.#options.isDiscovered(tenant);
    return this.#admitted.has(tenant) || this.#options.isDiscovered(tenant);
  }

  #heldEvents(): number {
    return [...this.#held.values()].reduce((sum, { events }) => sum + events, 0);
  }

  #noteHeld({ at, event: { id, tenant } }: PushedEvent): void {
    const { events, since } = this.#held.get(tenant) ?? { events: 0, since: at };
    this.#held.set(tenant, { events: events + 1, since: Math.min(since, at) });
    this.#ids.set(id, { kind: 'held', tenant });
  }

  #noteGone({ id, tenant }: UsageEvent): void {
    const held = this.#held.get(tenant);
    if (held !== undefined && held.events > 1) held.events -= 1;
    else this.#held.delete(tenant);
    this.#ids.delete(id);
  }

  /** Handles a push with an unknown tenant, or with an id that the ledger cannot check alone. */
  async #pushChecked(
    events: readonly UsageEvent[],
    sums?: { readonly records: readonly RecordChange[] },
  ): Promise<PushOutcome> {
    const { ledger, clock } = this.#options;
    const at = clock.now();
    const { strangers, admitted } = await this.#evaluateTenants(events);
    const toHold = new Map<string, PushedEvent>();
    const passed: number[] = [];
    const outcomes: EventOutcome[] = [];
    const heldAnswer = new Map<string, number>();
    for (const [index, event] of events.entries()) {
      const same = toHold.get(event.id) ?? (await this.#find(event, strangers));
      const isHeld = toHold.has(event.id) || this.#ids.get(event.id)?.kind === 'held';
      if (same !== undefined) {
        outcomes[index] = sameCharge(same.event, event) ? 'duplicate' : 'conflict';
      } else if (strangers.has(event.tenant)) {
        outcomes[index] = 'accepted';
        toHold.set(event.id, { at, event });
      } else {
        passed.push(index);
        continue;
      }
      if (outcomes[index] === 'accepted' || (isHeld && outcomes[index] === 'duplicate')) {
        heldAnswer.set(event.tenant, (heldAnswer.get(event.tenant) ?? 0) + 1);
      }
    }
    if (sums === undefined && toHold.size > Math.max(0, this.room())) {
      return { kind: 'too-much-held' };
    }
    const records = [
      ...admitted.map((tenant) => this.#records.putAdmitted(tenant, at)),
      ...[...toHold.values()].map((one) => this.#records.putHeld(one)),
      ...(sums?.records ?? []),
    ];
    const outcome = await append(
      ledger,
      passed.flatMap((index) => events[index] ?? []),
      records,
    );
    if (outcome.kind === 'failed') return outcome;
    for (const [position, index] of passed.entries()) {
      outcomes[index] = outcome.outcomes[position] ?? 'conflict';
    }
    for (const tenant of admitted) this.#admitted.set(tenant, at);
    for (const one of toHold.values()) this.#noteHeld(one);
    return { kind: 'appended', outcomes, held: heldAnswer };
  }

  /** Returns which tenants are unknown, and which are admitted from now on. */
  async #evaluateTenants(events: readonly UsageEvent[]) {
    const { unknownTenants, wasServed } = this.#options;
    const strangers = new Set<string>();
    const admitted: string[] = [];
    for (const tenant of new Set(events.map((event) => event.tenant))) {
      if (this.isKnown(tenant)) continue;
      const passes =
        !this.#held.has(tenant) && (unknownTenants() === 'create' || (await wasServed(tenant)));
      if (passes) admitted.push(tenant);
      else strangers.add(tenant);
    }
    return { strangers, admitted };
  }

  /**
   * The event that already has this id. A renamed event has two ids: the pushed one, found here,
   * and that in the ledger.
   */
  async #find(
    event: UsageEvent,
    strangers: ReadonlySet<string>,
  ): Promise<{ readonly event: UsageEvent } | undefined> {
    const known = this.#ids.get(event.id);
    if (known?.kind === 'held') return this.#records.findHeld(known.tenant, event.id);
    const used = known && (await this.#records.findUsed(event.id));
    if (used !== undefined && sameCharge(used.event, event)) return used;
    const stored = strangers.has(event.tenant)
      ? await this.#options.ledger.find(event.id)
      : undefined;
    if (stored !== undefined) return { event: stored };
    // A discarded id is used, but the ledger has no event to compare with.
    const isDiscarded =
      used !== undefined && (await this.#options.ledger.find(event.id)) === undefined;
    return isDiscarded ? used : undefined;
  }

  /** Handles the held events of a tenant in chunks, each in one transaction. */
  #decide(
    tenant: string,
    decide: (pushed: PushedEvent) => PushedEvent & { readonly next?: UsageEvent },
    also?: { readonly records: readonly RecordChange[]; readonly written: () => unknown },
  ): Promise<HeldDecision> {
    return this.#lock.runExclusive(async () => {
      if (!this.#held.has(tenant)) return { kind: 'none-held' };
      const all: PushedEvent[] = [];
      for await (const one of this.#records.heldOf(tenant)) all.push(one);
      const conflicts: string[] = [];
      let events = 0;
      let duplicates = 0;
      for (let start = 0; start < all.length; start += CHUNK) {
        const ready: (PushedEvent & { readonly next?: UsageEvent })[] = [];
        for (const pushed of all.slice(start, start + CHUNK)) {
          const decided = decide(pushed);
          if (await this.#conflicts(decided)) conflicts.push(pushed.event.id);
          else ready.push(decided);
        }
        const records = ready.flatMap(({ at, event, next }) => [
          this.#records.dropHeld(event),
          ...(next === event ? [] : [this.#records.putUsed({ at, event })]),
        ]);
        const outcome = await append(
          this.#options.ledger,
          ready.flatMap(({ next }) => next ?? []),
          [...records, ...(also?.records ?? [])],
        );
        if (outcome.kind === 'failed') return outcome;
        also?.written();
        events += ready.length;
        duplicates += outcome.outcomes.filter((one) => one === 'duplicate').length;
        for (const { event, next } of ready) {
          this.#noteGone(event);
          if (next !== event) this.#ids.set(event.id, { kind: 'used', tenant });
        }
      }
      return { kind: 'decided', events, duplicates, conflicts };
    });
  }

  /** Returns true when the ledger has another charge under the id that the event would get. */
  async #conflicts({ next }: { readonly next?: UsageEvent }): Promise<boolean> {
    const stored = next && (await this.#options.ledger.find(next.id));
    return stored !== undefined && next !== undefined && !sameCharge(stored, next);
  }
}

/** Writes events and records in one transaction; without events only the records. */
async function append(
  ledger: Ledger,
  events: readonly UsageEvent[],
  records: readonly RecordChange[],
): Promise<
  { readonly kind: 'appended'; readonly outcomes: readonly EventOutcome[] } | LedgerFailure
> {
  if (events.length > 0) return ledger.append({ events, records });
  const written = await ledger.writeRecords(records);
  return written.kind === 'failed' ? written : { kind: 'appended', outcomes: [] };
}

function refused(reason: string): HeldDecision {
  return { kind: 'refused', reason };
}

/**
 * The event under the other tenant's name. A derived id is derived again, so that a push under the
 * right name is a duplicate. An id of the sender stays.
 */
function renamed(event: UsageEvent, to: string): UsageEvent {
  const next = { ...event, tenant: to };
  const isDerived = event.id.startsWith(EVENT_ID_PREFIX);
  return isDerived ? { ...next, id: deriveEventId(next) } : next;
}
