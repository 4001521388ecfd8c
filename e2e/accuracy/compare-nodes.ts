import type { ReceivedEvent } from '../long/received.ts';
import { type Blind, figuresOf, isUnseen, type MetricFigures, nanosOf, sumsBy } from './figures.ts';
import type { NodeLife } from './node-changes.ts';
import { NODE_RATES } from './nodes.ts';

export interface NodeComparison {
  readonly nodes: number;
  readonly metrics: readonly MetricFigures[];
  /** Broke and were removed while nobody could see it. */
  readonly unseen: { readonly nodes: number; readonly overbilled: readonly string[] };
}

/** Holds the bill of every node of a tenant cluster's own against its creation and the time of its taint. */
export function compareNodes(
  lives: readonly NodeLife[],
  blinds: readonly Blind[],
  events: readonly ReceivedEvent[],
): NodeComparison {
  const wasUnseen = ({ downTold, removedAt }: NodeLife): boolean =>
    isUnseen(blinds, 'nodes', downTold, removedAt);
  const seen = lives.filter((life) => !wasUnseen(life));
  const unseen = lives.filter(wasUnseen);
  const overbilled = new Set<string>();
  const metrics = NODE_RATES.map(({ metric, rate }) => {
    const paid = sumsBy(events, metric, ({ dimensions }) => dimensions?.['node']);
    const billOf = ({ name, createdAt, downAt }: NodeLife) => ({
      name,
      due: nanosOf(rate, downAt - createdAt),
      paid: paid.get(name) ?? 0n,
    });
    for (const bill of unseen.map(billOf)) {
      // Times of the API are whole seconds: it may have been there for most of a further one.
      if (bill.paid > bill.due + nanosOf(rate, 1_000)) overbilled.add(bill.name);
    }
    return figuresOf(metric, 'whole nodes', seen.map(billOf));
  });
  return {
    nodes: seen.length,
    metrics,
    unseen: { nodes: unseen.length, overbilled: [...overbilled] },
  };
}
