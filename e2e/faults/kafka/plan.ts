import type { Misbehaviour } from '../../fakes/misbehaviour.ts';
import type { Action, Life, Plan } from '../plan.ts';

/** Of so many plans, one more has a broker killed under load. */
const PLANS_PER_KILL = 5;
/** No `times`: it lasts, which for one of three brokers means that it dies. */
const DIES: Misbehaviour = { kind: 'reset' };

/** A plan of lives with Kafka in the place of its second destination, and with what happens to that happening to Kafka. */
export function withKafka(plan: Plan): Plan {
  const [first, second] = plan.destinations;
  if (first === undefined || second === undefined) {
    throw new RangeError(`faults: --kafka: a plan without two destinations: "${plan.scenario}"`);
  }
  const kills = plan.seed % PLANS_PER_KILL === 0;
  const lives = plan.lives.map((life, index): Life => {
    const actions = life.actions.map((action) => movedTo(action, second));
    return { ...life, actions: kills && index === 0 ? withKill(actions) : actions };
  });
  return { ...plan, destinations: [first, 'kafka'], lives };
}

function movedTo(action: Action, second: string): Action {
  if (action.do !== 'weather' || action.destination !== second) return action;
  return { ...action, destination: 'kafka' };
}

/** In the middle, when there is something to write before and after. */
function withKill(actions: readonly Action[]): readonly Action[] {
  const middle = Math.floor(actions.length / 2);
  const kill: Action = { do: 'weather', destination: 'kafka', orders: [DIES] };
  return [...actions.slice(0, middle), kill, ...actions.slice(middle)];
}
