import { larger } from '../../model/decimal.ts';
import type { NodeGpus } from '../timelines/gpu-device.ts';
import type { NodeState } from '../timelines/node-state.ts';
import { type Span, splitAtEdges } from '../timelines/timeline.ts';
import { draGpusOf, nodeGpus } from './gpu-stock.ts';
import { addShares } from './gpu-shares.ts';
import { type GpuAllocation, gpuAllocations } from './gpu-allocations.ts';
import { type GpuBalance, gpuUse } from './meter-reports.ts';
import { isBilledHere, type Meter } from './meter.ts';
import { type NodeStretch, nodesByName } from './node-owners.ts';

type Running = { -readonly [Key in keyof GpuBalance]: GpuBalance[Key] };

/**
 * Computes the balance of every node with GPUs. Billed time comes from the charges. All other
 * amounts are computed independently, moment by moment, from the installed GPUs and their
 * allocations. Run it after the meters of GPUs and nodes.
 */
export const balanceGpus: Meter = function* (input) {
  const { window, observation, diagnostics } = input;
  const nodeAt = nodesByName(input);
  const offeredOn = draGpusOf(input);
  const allocations = gpuAllocations(input);
  const presence = presentNodes(observation.nodes.inNamespace(''));
  for (const name of new Set([
    ...presence.keys(),
    ...allocations.keys(),
    ...diagnostics.gpuUses.keys(),
  ])) {
    const rows = new Map<string, Running>();
    const onNode = allocations.get(name) ?? [];
    const spans = presence.get(name) ?? [];
    for (const stretch of nodeAt(name, window.start, window.end)) {
      const { state, from, to } = stretch;
      const offers = offeredOn(name, state, from, to);
      for (const [start, end] of splitAtEdges(from, to, [...spans, ...onNode, ...offers])) {
        input.checkpoint?.();
        const present = spans.some((span) => span.from <= start && start < span.to);
        const offered = offers.find((offer) => offer.from <= start && start < offer.to)?.gpus ?? [];
        const stands = present && state !== undefined && isBilledHere(input, state);
        const gpus = stands ? nodeGpus(state, offered) : [];
        const now = onNode.filter(
          (allocation) => allocation.from <= start && start < allocation.to,
        );
        noteStrays(stretch, now, BigInt(end - start));
        for (const moment of momentsOf(stretch, gpus, now)) {
          addMoment(rowOf(rows, name, moment.type), moment, BigInt(end - start));
          const ofModel = now.filter(({ type }) => type === moment.type);
          const owner = isBilledComplete(stretch) ? stretch.owner : undefined;
          const isDown = state?.down === true;
          const shared = { ...moment, owner, isDown, allocations: ofModel };
          addShares(diagnostics.gpuShares, shared, BigInt(end - start));
        }
        yield;
      }
    }
    for (const type of diagnostics.gpuUses.get(name)?.keys() ?? []) rowOf(rows, name, type);
    for (const row of rows.values()) {
      const { billed, overlap, carried } = gpuUse(diagnostics, name, row.type);
      const spent = billed + row.idle + row.downtime + row.system;
      diagnostics.gpuBalances.push({
        ...row,
        billed,
        carried,
        unaccounted: row.installed - spent + absolute(row.overlap - overlap),
      });
    }
  }
};

/** Notes GPU time of unattributed objects; none on nodes billed as a whole, or down. */
function noteStrays(stretch: NodeStretch, allocations: readonly GpuAllocation[], ms: bigint): void {
  if (isBilledComplete(stretch) || stretch.state?.down === true) return;
  for (const { stray, units } of allocations) if (stray !== undefined) stray.gpu += units * ms;
}

/** The GPUs of one model on a node at one moment, in {@link UNITS_PER_GPU}. */
type Moment = Pick<GpuBalance, 'type' | 'installed' | 'idle' | 'downtime' | 'system' | 'overlap'>;

function momentsOf(
  stretch: NodeStretch,
  gpus: readonly NodeGpus[],
  allocations: readonly GpuAllocation[],
): readonly Moment[] {
  const stocks = new Map(gpus.map((one) => [one.type, one]));
  const byModel = Map.groupBy(allocations, ({ type }) => type);
  return [...new Set([...stocks.keys(), ...byModel.keys()])].map((type) => {
    const stock = stocks.get(type);
    const own = byModel.get(type) ?? [];
    return isBilledComplete(stretch)
      ? complete(type, stretch, stock, own)
      : shared(type, stretch, stock, own);
  });
}

function isBilledComplete({ owner }: NodeStretch): boolean {
  return owner !== undefined && !owner.excluded;
}

/** A moment of a node billed as a whole: its tenant pays for all that is not down or missing. */
function complete(
  type: string,
  { state, owner }: NodeStretch,
  stock: NodeGpus | undefined,
  allocations: readonly GpuAllocation[],
): Moment {
  const installed = stock?.installed ?? 0n;
  const downtime = state?.down === true ? installed : (stock?.missing ?? 0n);
  const foreign = allocations.filter(
    ({ cluster }) => cluster !== undefined && cluster.id !== owner?.id,
  );
  return { type, installed, idle: 0n, downtime, system: 0n, overlap: sum(foreign) };
}

/**
 * The moment of a shared node. Running pods stay billed while GPUs are missing; only unallocated
 * missing GPUs are downtime.
 */
function shared(
  type: string,
  { state }: NodeStretch,
  stock: NodeGpus | undefined,
  allocations: readonly GpuAllocation[],
): Moment {
  const billed = sum(allocations.filter(({ cluster }) => cluster !== undefined));
  const system = sum(allocations.filter(({ cluster }) => cluster === undefined));
  const installed = larger(stock?.installed ?? 0n, billed + system);
  const none = { type, installed, idle: 0n, system: 0n, overlap: 0n };
  if (state?.down === true) return { ...none, downtime: installed };
  const free = installed - billed - system;
  const missing = stock?.missing ?? 0n;
  const downtime = missing < free ? missing : free;
  return { ...none, idle: free - downtime, downtime, system };
}

function sum(allocations: readonly GpuAllocation[]): bigint {
  return allocations.reduce((total, { units }) => total + units, 0n);
}

function absolute(amount: bigint): bigint {
  return amount < 0n ? -amount : amount;
}

function addMoment(row: Running, moment: Moment, ms: bigint): void {
  row.installed += moment.installed * ms;
  row.idle += moment.idle * ms;
  row.downtime += moment.downtime * ms;
  row.system += moment.system * ms;
  row.overlap += moment.overlap * ms;
}

function rowOf(rows: Map<string, Running>, node: string, type: string): Running {
  const known = rows.get(type);
  if (known !== undefined) return known;
  const zero = { installed: 0n, billed: 0n, idle: 0n, downtime: 0n, system: 0n };
  const row = { node, type, ...zero, overlap: 0n, carried: 0n, unaccounted: 0n };
  rows.set(type, row);
  return row;
}

function presentNodes(
  timelines: Iterable<{ readonly name: string; readonly spans: readonly Span<NodeState>[] }>,
): ReadonlyMap<string, readonly Span<NodeState>[]> {
  const byName = new Map<string, readonly Span<NodeState>[]>();
  for (const { name, spans } of timelines) {
    byName.set(name, [...(byName.get(name) ?? []), ...spans]);
  }
  return byName;
}
