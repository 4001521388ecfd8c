import type { HeldUsage } from '../billing/held-usage/ledger-held-usage.ts';
import type { Ledger, LedgerFailure } from '../ledger/ledger.ts';
import { quote } from '../model/validate-event.ts';
import { formatInstant } from '../model/window.ts';
import type { Clock } from '../telemetry/clock.ts';
import { draftEvent, windowOf } from './closing.ts';
import { type DeadLetters, refusalOf, type RefusedRequest } from './dead-letters.ts';
import type { Entries } from './entries.ts';
import { type RequestEntry, partsOf, sameParts } from './entry.ts';
import type { IntakeMetrics, RefusalCause } from './intake-metrics.ts';
import type { OpenSums } from './open-sums.ts';
import type { Reception, ReportedRequest } from './reported-request.ts';

const SUBJECT_CHARACTERS = 256;

/** Clocks of senders differ. */
const MOST_AHEAD_MS = 5 * 60_000;

export interface AdmissionOptions {
  readonly ledger: Pick<Ledger, 'writeRecords'>;
  readonly held: Pick<HeldUsage, 'isKnown' | 'room'>;
  readonly clock: Pick<Clock, 'now'>;
  /** The region of this control plane, for the events. */
  readonly region: string;
  /** The unit of a metric of the catalogue; undefined for an unknown metric. */
  readonly unitOf: (metric: string) => string | undefined;
  /** `spec.ingest.window` in force, milliseconds. */
  readonly windowMs: () => number;
  /** `spec.ingest.lateFor` in force, milliseconds. */
  readonly lateForMs: () => number;
}

/** The requests of one body, and its parts that nobody could read. */
export interface Body {
  readonly requests: readonly ReportedRequest[];
  readonly client: string;
  readonly refused: readonly RefusedRequest[];
}

/**
 * `receptions[i]` belongs to `requests[i]`. After a failure nothing is taken, and the sender must
 * repeat.
 */
export type AcceptOutcome =
  | { readonly kind: 'taken'; readonly receptions: readonly Reception[] }
  | LedgerFailure;

/** A request that does not count. */
interface Refusal {
  readonly cause: RefusalCause;
  readonly reason: string;
}

/** A request to store. */
interface Admitted {
  readonly request: ReportedRequest;
  readonly entry: RequestEntry;
}

/** Decides which reported requests count, and writes them. */
export class RequestAdmission {
  readonly #options: AdmissionOptions;
  readonly #entries: Entries;
  readonly #letters: DeadLetters;
  readonly #metrics: IntakeMetrics;
  /** The writes under way, by the keys of their requests. */
  readonly #underWay = new Map<string, Promise<unknown>>();
  /** Record keys of failed writes. It is unknown whether they are stored. */
  readonly #unknown = new Set<string>();
  #settling: Promise<LedgerFailure | undefined> | undefined;
  #number = 0;
  #from = 0;

  constructor(
    options: AdmissionOptions,
    entries: Entries,
    letters: DeadLetters,
    metrics: IntakeMetrics,
  ) {
    this.#options = options;
    this.#entries = entries;
    this.#letters = letters;
    this.#metrics = metrics;
  }

  /** Continues after the newest stored number. Refuses requests of dropped hours. */
  begin(newest: number, from: number): void {
    this.#number = newest;
    this.#from = from;
  }

  /** The number of the newest entry. */
  newest(): number {
    return this.#number;
  }

  /** Refuses requests before a time from now on, because their identities will be dropped. */
  refuseBefore(from: number): void {
    this.#from = from;
  }

  /**
   * Deletes what failed writes may have stored, so that nothing of them is taken. Returns why this
   * failed.
   */
  async settle(): Promise<LedgerFailure | undefined> {
    while (this.#unknown.size > 0) {
      this.#settling ??= this.#deleteUnknown().finally(() => {
        this.#settling = undefined;
      });
      const failure = await this.#settling;
      if (failure !== undefined) return failure;
    }
    return undefined;
  }

  /** Takes a body. Adds what counts to `open`. Windows up to `closedUntil` are closed. */
  async take(body: Body, open: OpenSums, closedUntil: number): Promise<AcceptOutcome> {
    const keys = new Set(body.requests.map(({ key }) => key));
    for (;;) {
      const failure = await this.settle();
      if (failure !== undefined) return failure;
      const others = [...keys].flatMap((key) => this.#underWay.get(key) ?? []);
      // Nothing runs between this check and the marking of the keys.
      if (others.length === 0 && this.#unknown.size === 0) break;
      await Promise.allSettled(others);
    }
    const taking = this.#takeAlone(body, open, closedUntil);
    for (const key of keys) this.#underWay.set(key, taking);
    try {
      return await taking;
    } finally {
      for (const key of keys) this.#underWay.delete(key);
    }
  }

  async #takeAlone(
    { requests, client, refused }: Body,
    open: OpenSums,
    closedUntil: number,
  ): Promise<AcceptOutcome> {
    const { ledger, clock } = this.#options;
    const now = clock.now();
    const admitted = new Map<string, Admitted>();
    const letters: RefusedRequest[] = [...refused];
    const causes: RefusalCause[] = refused.map(() => 'event');
    const receptions: Reception[] = [];
    for (const request of requests) {
      const { key } = request;
      const earlier = admitted.get(key)?.entry ?? (await this.#entries.find(key));
      const result =
        earlier === undefined
          ? this.#admit(request, client, now, open)
          : this.#compare(request, earlier);
      if ('cause' in result) {
        causes.push(result.cause);
        letters.push(refusalOf(request, result.reason));
        receptions.push({ kind: 'refused', reason: result.reason });
      } else if ('kind' in result) receptions.push(result);
      else {
        admitted.set(key, { request, entry: result });
        receptions.push({ kind: 'accepted' });
      }
    }
    const { records, written } = this.#letters.changes(letters, now, client);
    const changes = [
      ...[...admitted.values()].map(({ request, entry }) =>
        this.#entries.put(request.at, request.key, entry),
      ),
      ...records,
    ];
    const outcome =
      changes.length > 0 ? await ledger.writeRecords(changes) : ({ kind: 'written' } as const);
    if (outcome.kind === 'failed') {
      for (const { key } of changes.slice(0, admitted.size)) this.#unknown.add(key);
      return outcome;
    }
    written();
    for (const { request, entry } of admitted.values()) {
      this.#entries.remember(request.at, request.key);
      open.add(entry);
    }
    const late = [...admitted.values()].filter(({ entry }) => entry.window.end <= closedUntil);
    this.#metrics.accepted(client, admitted.size, late.length);
    const repeated = receptions.filter(({ kind }) => kind === 'repeated').length;
    if (repeated > 0) this.#metrics.repeated(client, repeated);
    for (const cause of causes) this.#metrics.refused(client, cause);
    return { kind: 'taken', receptions };
  }

  #compare(request: ReportedRequest, earlier: RequestEntry): Reception | Refusal {
    const parts = partsOf(request, this.#options.unitOf);
    if (typeof parts === 'string' || !sameParts(parts, earlier.parts)) {
      const reason = `counted with another quantity: id: ${quote(request.id)}: give each request an id of its own`;
      return { cause: 'repeat', reason };
    }
    const isSame = shortSubject(request.subject) === earlier.subject;
    return { kind: 'repeated', ...(!isSame && { subject: earlier.subject }) };
  }

  #admit(
    request: ReportedRequest,
    client: string,
    now: number,
    open: OpenSums,
  ): RequestEntry | Refusal {
    const { unitOf, windowMs, region } = this.#options;
    const { at, subject, tenant } = request;
    const time = this.#timeProblem(at, now);
    if (time !== undefined) return { cause: 'time', reason: time };
    const parts = partsOf(request, unitOf);
    if (typeof parts === 'string') return { cause: 'quantity', reason: parts };
    const window = windowOf(at, windowMs());
    for (const part of parts) {
      let cause: RefusalCause = 'series';
      const reason = open.problem(tenant, window, part, () => {
        cause = 'event';
        const sum = { ...part, tenant, client, window, region };
        const completed = draftEvent(sum, formatInstant(window.end));
        return completed.kind === 'invalid' ? completed.problem : undefined;
      });
      if (reason !== undefined) return { cause, reason };
    }
    if (!open.has(tenant) && !this.#fits(tenant, parts.length, open)) {
      const reason = `too much usage of unknown tenants is held: tenant: ${quote(tenant)}: release or discard some, or map the subject`;
      return { cause: 'unknown-tenant', reason };
    }
    this.#number += 1;
    return { number: this.#number, window, client, subject: shortSubject(subject), tenant, parts };
  }

  /** Whether the sums of an unknown tenant can be held when their window is closed. */
  #fits(tenant: string, series: number, open: OpenSums): boolean {
    const { held } = this.#options;
    if (held.isKnown(tenant)) return true;
    return open.countOf((other) => !held.isKnown(other)) + series <= held.room();
  }

  #timeProblem(at: number, now: number): string | undefined {
    if (!Number.isSafeInteger(at)) return `not a time: time: ${quote(at)}: send RFC 3339`;
    const oldest = Math.max(now - this.#options.lateForMs(), this.#from);
    if (at < oldest) {
      return `too old: time: ${quote(formatInstant(at))}: the oldest accepted is ${formatInstant(oldest)}, see spec.ingest.lateFor`;
    }
    if (at <= now + MOST_AHEAD_MS) return undefined;
    return `more than 5 minutes ahead: time: ${quote(formatInstant(at))}: check the sender's clock`;
  }

  async #deleteUnknown(): Promise<LedgerFailure | undefined> {
    const keys = [...this.#unknown];
    const changes = keys.map((key) => ({ key, value: undefined }));
    const outcome = await this.#options.ledger.writeRecords(changes);
    if (outcome.kind === 'failed') return outcome;
    for (const key of keys) this.#unknown.delete(key);
    return undefined;
  }
}

function shortSubject(subject: string): string {
  return subject.slice(0, SUBJECT_CHARACTERS).toWellFormed();
}
