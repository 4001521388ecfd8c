import type { Misbehaviour } from '../fakes/misbehaviour.ts';
import type { MonthPlan } from '../months/month-plan.ts';
import type { DestinationName } from './destinations.ts';
import type { StepName } from './subject/steps.ts';

/**
 * One run as data, made from its seed alone: what the operator lives through, life after life. After
 * the last life every fault is off, what is left is delivered, and what came of it is verified.
 */
export interface Plan {
  readonly seed: number;
  /** The accident that it is about. */
  readonly scenario: string;
  readonly destinations: readonly DestinationName[];
  readonly retentionMs: number;
  /** Events after which a segment of the ledger ends. */
  readonly segmentEvents: number;
  /** Whether the disk can misbehave while the process runs; needs the preloaded shim. */
  readonly faultyDisk: boolean;
  readonly requests: readonly RequestPlan[];
  readonly lives: readonly Life[];
  /** Months with their invoices, instead of lives. */
  readonly month?: MonthPlan;
}

/** What is appended in one piece: a window of the collector or a body of ingest. */
export interface RequestPlan {
  readonly kind: 'window' | 'ingest';
  readonly events: number;
  /** Milliseconds since the beginning of the run. */
  readonly windowStart: number;
}

/** The operator from a start to its end, and what happens to its directory before the next start. */
export interface Life {
  readonly actions: readonly Action[];
  /** The number of the sync that fails, counted from before the ledger is opened. */
  readonly failingSync?: number;
  /** Absent: it ends in good order. */
  readonly death?: Death;
  /** Until the next life begins. */
  readonly downtimeMs: number;
  /** The power fails with the death: what was not synced may be gone. */
  readonly powerCut?: { readonly seed: number };
  /** Stored bytes change while nothing runs. */
  readonly damage?: { readonly kind: 'flip' | 'tear'; readonly seed: number };
}

/**
 * `killed`: SIGKILL to a process of its own. `abandoned`: the same as far as anybody can see from
 * outside, without the cost of a process: everything stops, and a copy of the directory is gone on with.
 */
export interface Death {
  readonly how: 'killed' | 'abandoned';
  readonly when:
    | { readonly kind: 'step'; readonly step: StepName; readonly hit: number }
    /** Calls to the ledger and to destinations, begun and ended, counted from 1. */
    | { readonly kind: 'call'; readonly number: number }
    /** Milliseconds of real time after the start; only for `killed`. */
    | { readonly kind: 'time'; readonly ms: number };
}

export type Action =
  | { readonly do: 'append'; readonly request: number }
  /** At once, so that they may share a batch. */
  | { readonly do: 'append-together'; readonly requests: readonly number[] }
  | { readonly do: 'pass'; readonly ms: number }
  /** The wall clock is set; time itself is not touched. */
  | { readonly do: 'step-clock'; readonly ms: number }
  | { readonly do: 'retain' }
  /** From now on the vendor does this; no orders: it behaves. */
  | {
      readonly do: 'weather';
      readonly destination: DestinationName;
      readonly orders: readonly Misbehaviour[];
      /** Batches of which the receiver keeps the first half and fails then. */
      readonly halves?: number;
    }
  /** So many bytes can still be written; undefined: as many as one likes. */
  | { readonly do: 'disk-room'; readonly bytes: number | undefined }
  /** The n-th sync from here fails, and so many in a row with it; one when absent. */
  | { readonly do: 'fail-sync'; readonly nth: number; readonly times?: number }
  /** The process stands still while another one opens the directory, and then goes on. */
  | { readonly do: 'second-instance'; readonly lockDeleted: boolean };
