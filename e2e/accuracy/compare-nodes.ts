import type { ReceivedEvent } from '../long/received.ts';
import { type Blind, figuresOf, isUnseen, type MetricFigures, nanosOf, sumsBy } from './figures.ts';
import type { NodeLife } from './node-changes.ts';
import { NODE_RATES } from './nodes.ts';
import { accountOf, exactly, type Undated } from './undated.ts';

export interface NodeComparison {
  readonly nodes: number;
  readonly metrics: readonly MetricFigures[];
  /** Broke and were removed while nobody could see it. */
  readonly unseen: readonly Undated[];
}

/** Holds the bill of every node of a tenant cluster's own against its creation and the time of its taint. */
export function compareNodes(
  lives: readonly NodeLife[],
  blinds: readonly Blind[],
  events: readonly ReceivedEvent[],
): NodeComparison {
  const wasUnseen = ({ downReported, removedAt }: NodeLife): boolean =>
    isUnseen(blinds, 'nodes', downReported, removedAt);
  const seen = lives.filter((life) => !wasUnseen(life));
  const unseen = lives.filter(wasUnseen);
  const metrics = NODE_RATES.map(({ metric, rate }) => {
    const paid = sumsBy(events, metric, ({ dimensions }) => dimensions?.['node']);
    const billOf = ({ name, createdAt, downAt }: NodeLife) => ({
      name,
      due: nanosOf(rate, downAt - createdAt),
      paid: paid.get(name) ?? 0n,
    });
    return figuresOf(metric, 'whole nodes', seen.map(billOf));
  });
  return { nodes: seen.length, metrics, unseen: unseen.map(unseenOf) };
}

/** Times of the API are whole seconds: it may have been there for most of a further one. */
function unseenOf({ name, owner, createdAt, downAt }: NodeLife): Undated {
  const [from, to] = [exactly(createdAt), { from: downAt, to: downAt + 1_000 }];
  return {
    what: 'nodes that went down unseen',
    name,
    kind: 'nodes',
    dated: true,
    accounts: [accountOf(owner, name)],
    stretches: NODE_RATES.map(({ metric, rate }) => ({ metric, perHour: rate, from, to })),
  };
}
