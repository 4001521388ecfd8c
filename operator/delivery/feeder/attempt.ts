import {
  type BlockReason,
  type DeliveryResult,
  graver,
  type QueuedEvent,
} from '../delivery-result.ts';
import type { InFlight } from '../records/in-flight.ts';

/** The state of one event within an attempt to send. */
export type EventState =
  | { readonly kind: 'ready' }
  /** A correction of an event without a final outcome: not sent, but its tenant is admitted. */
  | { readonly kind: 'deferred' }
  /** It is not sent in this attempt. */
  | { readonly kind: 'waiting' }
  | { readonly kind: 'settled'; readonly result: DeliveryResult };

const READY: EventState = { kind: 'ready' };
export const DEFERRED: EventState = { kind: 'deferred' };
export const WAITING: EventState = { kind: 'waiting' };

interface Tried {
  readonly queued: QueuedEvent;
  readonly state: EventState;
}

/** The events of one attempt to send, in their order, each with its state. */
export class SendAttempt {
  readonly #tried: Map<number, Tried>;
  /** Start of the first earlier attempt with an unknown outcome, by sequence number. */
  readonly #earlier = new Map<number, number>();
  #blocked: BlockReason | undefined;
  #isOver = false;

  constructor(queued: readonly QueuedEvent[], inFlight: Pick<InFlight, 'unansweredSince'>) {
    this.#tried = new Map(queued.map((one) => [one.sequence, { queued: one, state: READY }]));
    for (const one of queued) {
      const since = inFlight.unansweredSince(one);
      if (since !== undefined) this.#earlier.set(one.sequence, since);
    }
  }

  /** The gravest reason why some events could not be sent. */
  get blocked(): BlockReason | undefined {
    return this.#blocked;
  }

  block(reason: BlockReason | undefined): void {
    this.#blocked = graver(this.#blocked, reason);
  }

  /** Whether the remaining steps are left out. */
  get isOver(): boolean {
    return this.#isOver;
  }

  end(): void {
    this.#isOver = true;
  }

  /** Returns the events in the given states, in order. */
  in(...kinds: readonly EventState['kind'][]): readonly QueuedEvent[] {
    return [...this.#tried.values()].flatMap(({ queued, state }) =>
      kinds.includes(state.kind) ? [queued] : [],
    );
  }

  ready(): readonly QueuedEvent[] {
    return this.in('ready');
  }

  move(sequence: number, state: EventState): void {
    const tried = this.#tried.get(sequence);
    if (tried !== undefined) this.#tried.set(sequence, { ...tried, state });
  }

  settle(sequence: number, result: DeliveryResult): void {
    this.move(sequence, { kind: 'settled', result });
  }

  settleAll(results: ReadonlyMap<number, DeliveryResult>): void {
    for (const [sequence, result] of results) this.settle(sequence, result);
  }

  /** Replaces an event with the form in which it is sent, as of another moment. */
  replace(queued: QueuedEvent): void {
    const tried = this.#tried.get(queued.sequence);
    if (tried !== undefined) this.#tried.set(queued.sequence, { ...tried, queued });
  }

  /** Forgets earlier attempts for events that the destination does not have. */
  forgetEarlier(queued: readonly QueuedEvent[]): void {
    for (const { sequence } of queued) this.#earlier.delete(sequence);
  }

  wasSentBefore({ sequence }: QueuedEvent): boolean {
    return this.#earlier.has(sequence);
  }

  /**
   * Returns the results of settled events, by sequence number. A dead letter carries the start of
   * an earlier attempt that may have been accepted.
   */
  results(): ReadonlyMap<number, DeliveryResult> {
    const results = new Map<number, DeliveryResult>();
    for (const [sequence, { state }] of this.#tried) {
      if (state.kind !== 'settled') continue;
      const { result } = state;
      const unansweredSince = this.#earlier.get(sequence);
      const isUncertain = result.kind === 'dead' && unansweredSince !== undefined;
      results.set(sequence, isUncertain ? { ...result, unansweredSince } : result);
    }
    return results;
  }
}
