import type { Clock } from '../../telemetry/clock.ts';

/** Sums that still differ are asked for again after this: billing systems take a while to add usage up. */
const AGAIN_AFTER_MS = 60_000;
/** Sums that differ for so long differ for another reason, which the daily comparison tells. */
const GIVE_UP_AFTER_MS = 30 * 60_000;

/** Tenants that are asked for at once, since each question reads the ledger of a day. */
const MAX_AT_ONCE = 100;

/**
 * Of tenants, each with a moment, those of which a destination's own sums have all that was delivered before
 * that moment.
 */
export type AskSums = (
  asked: ReadonlyMap<string, number>,
  signal: AbortSignal,
) => Promise<ReadonlySet<string>>;

/**
 * Asks in the background, so that nobody else waits; the answer is there at one of the next calls. Tenants that
 * want to know while a question is under way are asked for together after it. After half an hour of differences
 * the answer is yes, and `onGivenUp` is told.
 */
export interface ArrivalCheck {
  (tenant: string, before: number): boolean;
  forget(tenant: string): void;
  /** Cuts what is under way. */
  stop(): void;
}

export interface ArrivalCheckOptions {
  /** Absent where the destination tells no sums: then what was acknowledged has arrived. */
  readonly ask?: AskSums | undefined;
  readonly clock: Clock;
  /** There is an answer. */
  readonly onAnswer: (tenant: string) => void;
  readonly onGivenUp: (tenant: string) => void;
}

interface Check {
  readonly before: number;
  state: 'asking' | 'arrived' | 'missing';
  askedAt: number;
  missingSince?: number;
}

export function createArrivalCheck(options: ArrivalCheckOptions): ArrivalCheck {
  const { ask, clock, onAnswer, onGivenUp } = options;
  const checks = new Map<string, Check>();
  const waiting = new Map<string, Check>();
  const stopped = new AbortController();
  let isAsking = false;

  const askNext = async (wanted: AskSums): Promise<void> => {
    const asked = [...waiting].slice(0, MAX_AT_ONCE);
    for (const [tenant] of asked) waiting.delete(tenant);
    const moments = new Map(asked.map(([tenant, { before }]) => [tenant, before]));
    const arrived = await wanted(moments, stopped.signal).catch(() => new Set<string>());
    for (const [tenant, check] of asked) {
      check.state = arrived.has(tenant) ? 'arrived' : 'missing';
      check.askedAt = clock.monotonic();
      if (check.state === 'missing') check.missingSince ??= check.askedAt;
      if (!stopped.signal.aborted) onAnswer(tenant);
    }
  };
  const askAll = async (wanted: AskSums): Promise<void> => {
    if (isAsking) return;
    isAsking = true;
    while (waiting.size > 0 && !stopped.signal.aborted) await askNext(wanted);
    isAsking = false;
  };

  const arrived = (tenant: string, before: number): boolean => {
    if (ask === undefined) return true;
    const now = clock.monotonic();
    let check = checks.get(tenant);
    if (check?.before !== before) {
      check = { before, state: 'missing', askedAt: Number.NEGATIVE_INFINITY };
      checks.set(tenant, check);
    }
    if (check.state === 'arrived') return true;
    if (check.state === 'asking') return false;
    if (now - (check.missingSince ?? now) >= GIVE_UP_AFTER_MS) {
      onGivenUp(tenant);
      return true;
    }
    if (now - check.askedAt >= AGAIN_AFTER_MS) {
      check.state = 'asking';
      waiting.set(tenant, check);
      void askAll(ask);
    }
    return false;
  };
  const forget = (tenant: string): void => {
    checks.delete(tenant);
    waiting.delete(tenant);
  };
  return Object.assign(arrived, { forget, stop: () => stopped.abort() });
}
