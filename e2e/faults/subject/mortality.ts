import type { Death } from '../plan.ts';
import type { StepName } from './steps.ts';

/** When a process dies, and what that means for whoever goes on. */
export interface Mortality {
  /** Resolves with where it died. */
  readonly died: Promise<string>;
  readonly dead: boolean;
  /** Passes one side of a call; never comes back from beyond death. */
  call(): Promise<void>;
  /** Reaches a step outside of the ledger; never comes back from beyond death. */
  step(step: StepName): Promise<void>;
  /** Reaches a step within the ledger; comes back after {@link Mortality.release}, so that it can be closed. */
  within(step: StepName): Promise<void>;
  /** What the ledger was doing may end, now that nobody looks. */
  release(): void;
}

const FOREVER = new Promise<never>(() => undefined);

export function createMortality(death: Death | undefined): Mortality {
  const { promise: died, resolve } = Promise.withResolvers<string>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  let dead = false;
  let calls = 0;
  let hits = 0;

  const die = (where: string): void => {
    if (death?.how === 'killed') process.kill(process.pid, 'SIGKILL');
    dead = true;
    resolve(where);
  };
  const reach = (step: StepName): void => {
    if (dead || death?.when.kind !== 'step' || death.when.step !== step) return;
    hits += 1;
    if (hits === death.when.hit) die(step);
  };

  return {
    died,
    get dead() {
      return dead;
    },
    call: async () => {
      calls += 1;
      if (!dead && death?.when.kind === 'call' && calls === death.when.number) die(`call ${calls}`);
      if (dead) await FOREVER;
    },
    step: async (step) => {
      reach(step);
      if (dead) await FOREVER;
    },
    within: async (step) => {
      reach(step);
      if (dead) await released;
    },
    release,
  };
}
