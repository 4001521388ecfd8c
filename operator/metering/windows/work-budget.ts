import type { MeterInput } from '../meters/meter.ts';
import { seenObservation } from '../timelines/seen-timelines.ts';

/** Thrown inside a meter. Its message names the limit that was exceeded. */
export class BudgetExceeded extends Error {
  override readonly name = 'BudgetExceeded';
}

type Budgeted = Required<Pick<MeterInput, 'observation' | 'tally' | 'checkpoint'>>;

/** A meter's steps between two readings of the clock. */
const STEPS = 16;

/**
 * Wraps a meter's input with a budget. Every object that the meter reads and every charge that it
 * makes counts. `now` is monotonic, milliseconds.
 */
export function withinBudget(
  { observation, tally }: Pick<MeterInput, 'observation' | 'tally'>,
  budget: {
    /** Time of this process, milliseconds. */
    readonly ms: number;
    /** Events, including those that would be empty. */
    readonly charges: number;
  },
  now: () => number,
): Budgeted {
  const begun = now();
  let steps = 0;
  const checkpoint = (): void => {
    steps += 1;
    if (steps % STEPS !== 0 || now() - begun <= budget.ms) return;
    throw new BudgetExceeded('measuring a window takes longer than it may');
  };
  const charges = new Set<object>();
  return {
    checkpoint,
    observation: seenObservation(observation, () => {
      checkpoint();
      return true;
    }),
    tally: {
      charges: () => tally.charges(),
      charge: (identity) => {
        checkpoint();
        const charge = tally.charge(identity);
        if (charges.add(charge).size <= budget.charges) return charge;
        throw new BudgetExceeded(`more than ${budget.charges} events in a window`);
      },
    },
  };
}
