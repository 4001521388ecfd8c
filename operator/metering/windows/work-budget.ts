import type { MeterInput } from '../meters/meter.ts';
import { seenObservation } from '../timelines/seen-timelines.ts';

/** What measuring one window of one tenant cluster may take. */
export interface WorkBudget {
  /** Of one process's time, milliseconds. */
  readonly ms: number;
  /** Events, before those that come to nothing are left out. */
  readonly charges: number;
}

/** Thrown out of a meter; its message says which part of the budget was too small. */
export class BudgetExceeded extends Error {
  override readonly name = 'BudgetExceeded';
}

type Budgeted = Required<Pick<MeterInput, 'observation' | 'tally' | 'checkpoint'>>;

/** How many steps of a meter lie between two looks at the clock. */
const STEPS = 16;

/**
 * The same input, through which a meter gets no further than its budget reaches: every object that it
 * looks at and every charge that it makes is counted. `now` is monotonic, milliseconds.
 */
export function withinBudget(
  { observation, tally }: Pick<MeterInput, 'observation' | 'tally'>,
  budget: WorkBudget,
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
