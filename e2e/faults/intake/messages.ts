import type { LedgerDatabase } from '../../../operator/settings/settings.ts';
import type { Reception, ReportedRequest } from '../../../operator/intake/reported-request.ts';

/** An hour of the process's clock takes this many milliseconds. */
export const HOUR_TAKES_MS = 2_000;

/** What the process is started with, as JSON in its first argument. */
export interface Start {
  readonly directory: string;
  /** The ledger is here instead of in the directory. */
  readonly database?: LedgerDatabase;
  /** The process's clock shows `zero` when the machine's clock shows `since`. */
  readonly since: number;
  readonly zero: number;
  readonly lateForMs: number;
}

export type Order =
  | {
      readonly kind: 'accept';
      readonly body: number;
      readonly requests: readonly ReportedRequest[];
    }
  /** Close everything and report what is stored. */
  | { readonly kind: 'total' };

export type Answer =
  | { readonly kind: 'ready' }
  | { readonly kind: 'taken'; readonly body: number; readonly receptions: readonly Reception[] }
  | { readonly kind: 'failed'; readonly body: number; readonly message: string }
  | {
      readonly kind: 'total';
      /** The sum of the events by tenant and metric. */
      readonly sums: Readonly<Record<string, string>>;
      /** Series and windows with more than one event in time, and ids that occur twice. */
      readonly repeated: number;
    };

/** The time of the process's clock, milliseconds since the epoch. */
export function processTime({ zero, since }: Pick<Start, 'zero' | 'since'>): number {
  return zero + Math.floor(((Date.now() - since) * HOUR_MS) / HOUR_TAKES_MS);
}

const HOUR_MS = 3_600_000;
