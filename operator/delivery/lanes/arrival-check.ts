import type { Clock } from '../../telemetry/clock.ts';

/** Sums that still differ are asked for again after this: billing systems take a while to add usage up. */
const AGAIN_AFTER_MS = 60_000;
/** Sums that differ for so long differ for another reason, which the daily comparison tells. */
const GIVE_UP_AFTER_MS = 30 * 60_000;

/** Whether a destination's own sums have all that was delivered of a tenant before a moment. */
export type AskSums = (tenant: string, before: number, signal: AbortSignal) => Promise<boolean>;

/**
 * Asks in the background, so that nobody else waits; the answer is there at one of the next calls. After
 * half an hour of differences the answer is yes, and `onGivenUp` is told.
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
  readonly begunAt: number;
  state: 'asking' | 'arrived' | 'missing';
  askedAt: number;
}

export function createArrivalCheck(options: ArrivalCheckOptions): ArrivalCheck {
  const { ask, clock, onAnswer, onGivenUp } = options;
  const checks = new Map<string, Check>();
  const stopped = new AbortController();

  const start = async (tenant: string, check: Check): Promise<void> => {
    check.state = 'asking';
    check.askedAt = clock.monotonic();
    const has = await ask?.(tenant, check.before, stopped.signal).catch(() => false);
    check.state = has === true ? 'arrived' : 'missing';
    if (!stopped.signal.aborted) onAnswer(tenant);
  };

  const arrived = (tenant: string, before: number): boolean => {
    if (ask === undefined) return true;
    const now = clock.monotonic();
    let check = checks.get(tenant);
    if (check?.before !== before) {
      check = { before, begunAt: now, state: 'missing', askedAt: Number.NEGATIVE_INFINITY };
      checks.set(tenant, check);
    }
    if (check.state === 'arrived') return true;
    if (check.state === 'asking') return false;
    if (now - check.begunAt >= GIVE_UP_AFTER_MS) {
      onGivenUp(tenant);
      return true;
    }
    if (now - check.askedAt >= AGAIN_AFTER_MS) void start(tenant, check);
    return false;
  };
  return Object.assign(arrived, {
    forget: (tenant: string) => void checks.delete(tenant),
    stop: () => stopped.abort(),
  });
}
