import { larger } from '../../model/decimal.ts';
import { type NodeGpus, UNKNOWN_GPU } from './gpu-device.ts';
import type { ExtendedResource, NodeView } from './node.ts';
import { type NodeDecisions, type NodeSettings, nodeState, type NodeState } from './node-state.ts';
import type { Span } from './timeline.ts';

/** What the provider says of one machine, in the words of a node. */
export interface ProviderWord {
  /** Those of the machine's record, and over them `ownNodeLabels`: read as a node's labels are. */
  readonly labels: Readonly<Record<string, string>>;
  readonly record?: MachineFacts | undefined;
  /** What says it; undefined where the provider says nothing. */
  readonly source?: string | undefined;
}

/** The source of what a TenantOverride says; a record's name may stand before it. */
export const PRIVATE_NODE_LABELS = 'ownNodeLabels';

/** What a machine's record says besides its labels. */
export interface MachineFacts {
  /** Nanocores and nano-bytes; 0 where the record does not say. */
  readonly cpu: bigint;
  readonly memory: bigint;
  readonly extended: ReadonlyMap<string, ExtendedResource>;
  /** The record says that the machine is down. */
  readonly down: boolean;
  /** Since when, milliseconds since the epoch, where the record says. */
  readonly downSince?: number;
}

interface Readings {
  readonly node: NodeView;
  /** What the tenant's API says. */
  readonly told: NodeState;
  readonly word: ProviderWord;
  readonly settings: NodeSettings;
  /** What the node was until now. */
  readonly spans: readonly Span<NodeState>[];
  /** Wall clock, milliseconds. */
  readonly at: number;
}

/** No kind of capacity costs more. */
const DEAREST = 'on-demand';
/** What a node has been for so long is not made cheaper by its tenant's word. */
const HOLDS_AFTER_MS = 600_000;

/**
 * The state of a tenant cluster's own node where the tenant's word about it does not count: what the
 * provider says holds; of what he does not say the dearest reading does
 * (docs/explanation/nodes.md#the-dearest-reading).
 */
export function providedState(readings: Readings): NodeState {
  const { node, told: reported, word, settings, spans, at } = readings;
  const stated = nodeState(inItsPlace(node, word), settings, word);
  const own = spans.filter(({ state }) => !isOverridden(state));
  const held = (read: Reading): NodeState | undefined => lasting(own, at, read);
  const first = (field: PlainField): string | undefined =>
    stated[field] ?? (held((state) => state[field]) ?? reported)[field];
  const last = spans.at(-1)?.state;
  // A machine stays what its record said, whatever becomes of the record.
  const recorded = word.source === undefined && last?.provenBy !== undefined && !isOverridden(last);
  const { capacityType, gpu } = stated.decidedBy ?? {};
  const gpuType = gpu === undefined ? gpuTypeOf(reported, held(gpuTypeRead)) : stated.gpuType;
  const most = (amount: 'cpu' | 'memory'): bigint => {
    const before = held((state) => state[amount])?.[amount] ?? 0n;
    return larger(stated[amount], larger(reported[amount], before));
  };
  const state: NodeState = {
    capacityType:
      capacityType === undefined ? (recorded ? last.capacityType : DEAREST) : stated.capacityType,
    zone: first('zone'),
    region: first('region'),
    instanceType: first('instanceType'),
    sku: first('sku'),
    provenBy: word.source ?? (recorded ? last.provenBy : undefined),
    cpu: most('cpu'),
    memory: most('memory'),
    gpuType,
    devices: devicesOf(reported, gpuType),
    hami: reported.hami?.map((device) => ({ ...device, type: gpuType })),
    gpuMemory: stated.gpuMemory ?? reported.gpuMemory,
    gpus: gpusOf(
      reported,
      stated.gpus.length > 0 ? stated.gpus : dearerGpus(reported, held(installed)),
      gpuType,
    ),
    down: word.record?.down === true,
    dedicatedTo: reported.dedicatedTo,
    trust: 'provider',
  };
  return {
    ...state,
    decidedBy: decisions(state, { told: reported, said: stated, last, source: word.source }),
  };
}

/** What an override said is given back when it says it no more. */
function isOverridden({ provenBy }: NodeState): boolean {
  return provenBy?.endsWith(PRIVATE_NODE_LABELS) === true;
}

type Reading = (state: NodeState) => string | bigint | undefined;
const PLAIN_FIELDS = ['zone', 'region', 'instanceType', 'sku'] as const;
type PlainField = (typeof PLAIN_FIELDS)[number];

/** The node as the provider's record alone shows it. */
function inItsPlace(node: NodeView, { labels, record }: ProviderWord): NodeView {
  const { cpu = 0n, memory = 0n, extended = new Map() } = record ?? {};
  return { ...node, labels, cpu, memory, extended, taints: [] };
}

/** The newest state with a reading that has held for long, up to `at` or until it was superseded. */
function lasting(
  spans: readonly Span<NodeState>[],
  at: number,
  read: Reading,
): NodeState | undefined {
  let since = { to: at, state: spans.at(-1)?.state };
  for (const { from, to, state } of spans.toReversed()) {
    const same = since.state !== undefined && read(since.state) === read(state);
    if (!same) since = { to: Math.min(to, at), state };
    if (since.to - from >= HOLDS_AFTER_MS) return state;
  }
  return undefined;
}

const gpuTypeRead: Reading = ({ gpuType }) => gpuType;
const installed: Reading = ({ gpus }) => totalOf(gpus);

function totalOf(gpus: readonly NodeGpus[]): bigint {
  return gpus.reduce((sum, one) => sum + one.installed, 0n);
}

/** A model that was named stays; the name of an instance type is none. */
function gpuTypeOf(reported: NodeState, held: NodeState | undefined): string {
  const named = held !== undefined && held.gpuType !== UNKNOWN_GPU;
  return named && held.gpuType !== held.instanceType ? held.gpuType : reported.gpuType;
}

/** What one device of each resource is, of the model that holds. */
function devicesOf({ devices, gpuType: before }: NodeState, type: string): NodeState['devices'] {
  if (type === before) return devices;
  return new Map(
    [...devices].map(([name, device]) => [
      name,
      device.type === before ? { ...device, type } : device,
    ]),
  );
}

/** GPUs that were there for long are there. */
function dearerGpus(reported: NodeState, held: NodeState | undefined): readonly NodeGpus[] {
  return held !== undefined && totalOf(held.gpus) > totalOf(reported.gpus)
    ? held.gpus
    : reported.gpus;
}

/**
 * GPUs under the model that holds. What is missing of them is what the node does not offer at present;
 * it is billed all the same, and told apart only because resource slices may offer it.
 */
function gpusOf(reported: NodeState, gpus: readonly NodeGpus[], type: string): readonly NodeGpus[] {
  const offered = reported.gpus.reduce((sum, one) => sum + one.installed - one.missing, 0n);
  const [only, ...others] = gpus;
  if (only === undefined || others.length > 0) return gpus;
  const missing = only.installed > offered ? only.installed - offered : 0n;
  const devices = Math.max(only.devices, reported.gpus[0]?.devices ?? 0);
  return [{ type, installed: only.installed, missing, devices }];
}

interface Stated {
  readonly told: NodeState;
  readonly said: NodeState;
  readonly last: NodeState | undefined;
  readonly source: string | undefined;
}

/** Which labels, and whose, say what holds. */
function decisions(
  state: NodeState,
  { told: reported, said, last, source = '' }: Stated,
): NodeDecisions {
  const of = (text: string): string => `${source}: ${text}`;
  const by = said.decidedBy ?? {};
  const plain = PLAIN_FIELDS.map((field) => {
    const label = by[field];
    if (label !== undefined) return [field, of(label)] as const;
    const from = state[field] === reported[field] ? reported : last;
    return [field, from?.decidedBy?.[field]] as const;
  });
  const capacityType = by.capacityType === undefined ? undefined : of(by.capacityType);
  return {
    capacityType: capacityType ?? (state.provenBy && last?.decidedBy?.capacityType),
    gpu: by.gpu?.map(of) ?? (state.gpuType === reported.gpuType ? reported : last)?.decidedBy?.gpu,
    dedicated: reported.decidedBy?.dedicated,
    ...Object.fromEntries(plain),
  };
}
