import { createFindings } from '../meters/findings.ts';
import type { MeterInput } from '../meters/meter.ts';
import { createTally } from '../meters/tally.ts';
import { runMeters, type Shared } from './measure-scope.ts';
import { objectsOf } from './one-turn.ts';
import { type LimitedNodes, limitOwnNodes } from './own-node-limit.ts';
import type { ScopeState } from './scope.ts';
import { withinBudget } from './work-budget.ts';

/** What a window of one tenant cluster with nodes of its own came to. */
export type MeasuredOwn = Pick<MeterInput, 'tally' | 'findings'> & Pick<LimitedNodes, 'heldNodes'>;

export interface OwnBudget {
  /** Monotonic, milliseconds, without what others did in between. */
  readonly now: () => number;
  /** How often in a row it has failed. */
  readonly tries: number;
}

/** Twice as much each time again, so that one that is honest and slow gets through. */
const MOST_DOUBLINGS = 4;
const MS = 200;
/** What the usual object takes on a slow machine, ten times over. */
const MS_PER_OBJECT = 0.3;
const CHARGES = 20_000;
const CHARGES_PER_NODE = 10;

/** Measures it, one object after the other; throws when it takes more than it may. */
export function* measureOwn(
  member: ScopeState,
  shared: Shared,
  { now, tries }: OwnBudget,
): Generator<void, MeasuredOwn> {
  const tally = createTally();
  const findings = createFindings();
  const { observation, heldNodes } = limitOwnNodes(member.scope.observation, shared.window);
  const ms = Math.round(
    (MS + objectsOf(observation) * MS_PER_OBJECT) * 2 ** Math.min(tries, MOST_DOUBLINGS),
  );
  const billed = heldNodes?.limit ?? observation.nodes.size;
  const charges = CHARGES + billed * CHARGES_PER_NODE;
  const budgeted = withinBudget({ observation, tally }, { ms, charges }, now);
  yield* runMeters(member, { ...shared, findings, ...budgeted });
  return { tally, findings, heldNodes };
}
