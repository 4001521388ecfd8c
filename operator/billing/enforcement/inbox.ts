import pLimit from 'p-limit';
import type { BillingState, EnforcementSettings } from '../../settings/settings.ts';
import type { RecordChange, WriteOutcome } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import type { Alert, RefusalReport } from '../../destinations/alerts.ts';
import type { AlertsDefinition } from '../../destinations/definition.ts';
import type { LateRefusal, PublicKeysOutcome } from '../../destinations/destination.ts';
import { definitionOf } from '../../destinations/registry.ts';
import type { SignedRequest, Verification } from '../../destinations/signatures.ts';
import type { DestinationType } from '../../model/destination-type.ts';
import { Secret } from '../../model/secret.ts';
import type { TenantsByCustomer, TenantsOfCustomer } from './states/customers.ts';
import type { PinnedKeys } from './states/pinned-keys.ts';
import {
  keyOfBody,
  keyOfId,
  REMEMBER_MS,
  secretName,
  type SeenAlerts,
  type SeenMessage,
} from './states/seen-alerts.ts';
import type { StateStore } from './states/state-store.ts';
import {
  applyAlert,
  effectiveState,
  isNews,
  newRecord,
  type StatedAlert,
  type TenantRecord,
} from './states/tenant-record.ts';

/** The outcome of one message of a billing system. */
export type InboxOutcome =
  | {
      readonly kind: 'applied';
      /** The concerned tenants, at least one. `state`: the first one's effective state after it. */
      readonly tenants: readonly string[];
      readonly state: BillingState;
    }
  /** It reports usage that is not billed. The destinations of its type show it. */
  | { readonly kind: 'reported'; readonly reason: string }
  /** Signed correctly, but without effect. */
  | { readonly kind: 'ignored'; readonly why: IgnoredWhy; readonly reason: string }
  /** The reason is safe to return to the sender. */
  | { readonly kind: 'malformed'; readonly reason: string }
  | { readonly kind: 'refused' }
  /** Nothing is recorded; the sender must repeat it. */
  | { readonly kind: 'unavailable'; readonly reason: string };

export type IgnoredWhy = 'irrelevant' | 'unknown-customer' | 'duplicate' | 'stale';

export interface InboxOptions {
  readonly settings: () => EnforcementSettings;
  readonly states: StateStore;
  readonly seen: SeenAlerts;
  readonly customers: TenantsByCustomer;
  readonly keys: PinnedKeys;
  /** Durably records a report of usage that is not billed, and `more` in the same transaction. */
  readonly report: (
    provider: DestinationType,
    refusals: readonly LateRefusal[],
    more: readonly RecordChange[],
  ) => Promise<WriteOutcome>;
  /** False until discovery knows the tenants. */
  readonly known: () => boolean;
  /** Called with the tenants whose records changed. */
  readonly onChange: (tenants: readonly string[]) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Handles the messages of billing systems. Every outcome except `unavailable` is durable. */
export class Inbox {
  readonly #options: InboxOptions;
  /** Of verifying and parsing messages. */
  readonly #timeSlice: TimeSlice;
  /** Runs one action after the other: each builds on the records that the previous one wrote. */
  readonly enqueue = pLimit(1);

  constructor(options: InboxOptions) {
    this.#options = options;
    this.#timeSlice = new TimeSlice(options.clock);
  }

  /** Verifies, parses and applies one message. */
  async receive(
    provider: DestinationType,
    request: SignedRequest,
    signal: AbortSignal,
  ): Promise<InboxOutcome> {
    const { settings, seen, clock } = this.#options;
    const alerts = definitionOf(provider)?.alerts;
    if (alerts === undefined) return { kind: 'refused' };
    // Many messages may arrive at once, and verifying a large one takes time.
    if (this.#timeSlice.isOver) await this.#timeSlice.next();
    const { verification, signedBy } = await this.#verify(provider, alerts, request, signal);
    if (verification.kind === 'unavailable') return verification;
    if (verification.kind === 'unsigned') return { kind: 'malformed', reason: verification.reason };
    if (verification.kind === 'refused') return verification;
    const parsed = alerts.parse(request);
    if (parsed.kind === 'malformed') return parsed;
    if (parsed.kind === 'irrelevant') return ignored('irrelevant', parsed.reason);
    if (parsed.kind === 'refusals') {
      const received = { request, signedBy, now: clock.now() };
      return this.enqueue(() => this.#take(parsed.report, seenAs(alerts, parsed.report, received)));
    }
    const { alert } = parsed;
    const state = settings().rules.get(alert.type) ?? alert.state;
    if (state === undefined) {
      return ignored('irrelevant', `no state and no rule for ${alert.type}`);
    }
    const now = clock.now();
    if (!alerts.signsId && alert.at !== undefined && now - alert.at > REMEMBER_MS) {
      return ignored('stale', 'older than 30 days, the time in which repeats are recognised');
    }
    const messages = seenAs(alerts, alert, { request, signedBy, now });
    if (messages.some(({ key }) => seen.has(key))) return duplicate(alert);
    const whose = await this.#tenantsOf(alert, signal);
    if (whose.kind !== 'tenants') return whose;
    const { tenants, learnt } = whose;
    return this.enqueue(() => this.#apply(this.#stated(alert, state), tenants, messages, learnt));
  }

  /** Applies one current alert from a poll. A known state changes nothing. */
  async receivePolled(alert: Alert, signal: AbortSignal): Promise<InboxOutcome> {
    const { settings, states } = this.#options;
    const { type } = alert;
    if (alert.state === undefined) return ignored('irrelevant', `no state for ${type}`);
    const stated = this.#stated(alert, settings().rules.get(type) ?? alert.state);
    const whose = await this.#tenantsOf(alert, signal);
    if (whose.kind !== 'tenants') return whose;
    return this.enqueue(async () => {
      const news = whose.tenants.filter((tenant) => isNews(states.find(tenant), stated));
      if (news.length === 0) return ignored('duplicate', 'known already');
      return this.#apply(stated, news, [], whose.learnt);
    });
  }

  async #take(
    { provider, id, refusals }: RefusalReport,
    messages: readonly SeenMessage[],
  ): Promise<InboxOutcome> {
    const { seen, clock, report } = this.#options;
    if (messages.some(({ key }) => seen.has(key))) return duplicate({ id });
    const now = clock.now();
    const dated = refusals.map((one) => ({ ...one, at: now }));
    const written = await report(provider, dated, seen.changes(messages, now));
    if (written.kind === 'failed') return { kind: 'unavailable', reason: written.message };
    seen.add(messages, now);
    const events = refusals.reduce((sum, one) => sum + one.events, 0);
    return { kind: 'reported', reason: `${events} events are not billed` };
  }

  async #tenantsOf(
    { provider, customer }: Alert,
    signal: AbortSignal,
  ): Promise<Extract<TenantsOfCustomer, { readonly kind: 'tenants' }> | InboxOutcome> {
    if (!this.#options.known()) {
      return { kind: 'unavailable', reason: 'waiting for the first successful discovery' };
    }
    const whose = await this.#options.customers.tenantsOf(provider, customer, signal);
    if (whose.kind === 'failed') return { kind: 'unavailable', reason: whose.reason };
    if (whose.kind === 'unknown') {
      return ignored('unknown-customer', 'no tenant of this operator is this customer');
    }
    return whose;
  }

  /** Verifies a message. `signedBy`: the secret or key; undefined unless it is signed. */
  async #verify(
    provider: DestinationType,
    alerts: AlertsDefinition,
    request: SignedRequest,
    signal: AbortSignal,
  ): Promise<Verified> {
    const { settings, keys, clock } = this.#options;
    if (alerts.publicKey?.isUsed(request) === true) {
      return verifyByKey(alerts.publicKey, request, [
        () => keys.of(provider, signal),
        () => keys.renewed(provider, signal),
      ]);
    }
    const now = clock.now();
    const secrets = settings().webhookSecrets[provider] ?? [];
    const verification = alerts.verify(request, secrets, now);
    const secret = secrets.find((each) => alerts.verify(request, [each], now).kind === 'signed');
    return { verification, ...(secret !== undefined && { signedBy: secretName(secret) }) };
  }

  /**
   * Gives an alert its state and time. A type that only a rule knows settles everything when the
   * rule says `active`: it has no subject of its own.
   */
  #stated(alert: Alert, state: BillingState): StatedAlert {
    const now = this.#options.clock.now();
    const at = Math.min(alert.at ?? now, now);
    const byRule = alert.state === undefined && state === 'active';
    return { ...alert, state, at, ...(byRule && { settles: 'all' }) };
  }

  async #apply(
    alert: StatedAlert,
    tenants: readonly string[],
    messages: readonly SeenMessage[],
    learnt: readonly RecordChange[],
  ): Promise<InboxOutcome> {
    const { states, seen, clock } = this.#options;
    if (messages.some(({ key }) => seen.has(key))) return duplicate(alert);
    const now = clock.now();
    const transitions = tenants.map((tenant) =>
      applyAlert(states.find(tenant) ?? newRecord(tenant, now), alert, now),
    );
    const changed = transitions.filter(({ kind }) => kind === 'applied').map((t) => t.record);
    const written = await states.putAll(changed, [...seen.changes(messages, now), ...learnt]);
    if (written.kind === 'failed') return { kind: 'unavailable', reason: written.message };
    seen.add(messages, now);
    const [first] = changed;
    if (first === undefined) {
      return ignored('stale', 'a newer alert of the same subject is known');
    }
    for (const record of changed) this.#report(alert, record);
    this.#options.onChange(changed.map(({ tenant }) => tenant));
    return {
      kind: 'applied',
      tenants: changed.map(({ tenant }) => tenant),
      state: effectiveState(first).state,
    };
  }

  #report({ provider, type, id }: StatedAlert, record: TenantRecord): void {
    const { state } = effectiveState(record);
    const fields = { tenant: record.tenant, state, provider, type, id };
    this.#options.logger.info(
      `[enforcement] ${record.tenant} is ${state} after ${provider} ${type}`,
      fields,
    );
  }
}

/**
 * The keys by which a repeat of the message is recognised.
 * 1. The id alone, when the signature covers it.
 * 2. Otherwise the body too, because the same body under another id is the same message.
 * 3. If such a body has no time either, its signature stays valid while the secret is in use. Then
 *    `signedBy` keeps the key that long.
 */
function seenAs(
  alerts: AlertsDefinition,
  { provider, id, at }: Pick<Alert, 'provider' | 'id' | 'at'>,
  received: {
    readonly request: SignedRequest;
    readonly signedBy: string | undefined;
    readonly now: number;
  },
): readonly SeenMessage[] {
  const { request, signedBy, now } = received;
  const byId = { key: keyOfId(provider, id) };
  if (alerts.signsId) return [byId];
  const key = keyOfBody(provider, request.body);
  if (at !== undefined && at <= now) return [byId, { key }];
  return [byId, { key, signedBy }];
}

interface Verified {
  readonly verification: Verification | { readonly kind: 'unavailable'; readonly reason: string };
  readonly signedBy?: string;
}

/** Verifies with the keys of each attempt in turn, until one has signed the message. */
async function verifyByKey(
  publicKey: NonNullable<AlertsDefinition['publicKey']>,
  request: SignedRequest,
  attempts: readonly (() => Promise<PublicKeysOutcome>)[],
): Promise<Verified> {
  for (const attempt of attempts) {
    const answer = await attempt();
    if (answer.kind === 'failed') {
      const reason = `the public key cannot be fetched: ${answer.reason}`;
      return { verification: { kind: 'unavailable', reason } };
    }
    const verification = publicKey.verify(request, answer.keys);
    const key = answer.keys.find((each) => publicKey.verify(request, [each]).kind === 'signed');
    if (key !== undefined) return { verification, signedBy: secretName(new Secret(key)) };
    if (verification.kind === 'unsigned') return { verification };
  }
  return { verification: { kind: 'refused' } };
}

function ignored(why: IgnoredWhy, reason: string): InboxOutcome {
  return { kind: 'ignored', why, reason };
}

function duplicate({ id }: Pick<Alert, 'id'>): InboxOutcome {
  return ignored('duplicate', `already received: ${id.slice(0, 64)}`);
}
