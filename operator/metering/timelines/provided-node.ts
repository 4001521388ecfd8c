import { larger } from '../../model/decimal.ts';
import { type NodeGpus, UNKNOWN_GPU } from './gpu-device.ts';
import type { ExtendedResource, NodeView } from './node.ts';
import { type NodeDecisions, type NodeSettings, nodeState, type NodeState } from './node-state.ts';
import type { Span } from './timeline.ts';

/** The provider's statement about one machine, in the fields of a node. */
export interface ProviderStatement {
  /**
   * Labels of the machine's record, overridden by `privateNodeLabels`; read as a node's labels are.
   */
  readonly labels: Readonly<Record<string, string>>;
  /** The fields of a machine's record besides its labels. */
  readonly record?: {
    /** Nanocores and nano-bytes; 0 where the record does not say. */
    readonly cpu: bigint;
    readonly memory: bigint;
    readonly extended: ReadonlyMap<string, ExtendedResource>;
    /** The record reports the machine as down. */
    readonly down: boolean;
    /** Since when it is down, milliseconds since the epoch; absent where the record has no time. */
    readonly downSince?: number;
  };
  /** The source of the statement; undefined where the provider states nothing. */
  readonly source?: string;
}

/** The source name of a TenantOverride's labels; a record's name may stand before it. */
export const PRIVATE_NODE_LABELS = 'privateNodeLabels';

/** The capacity type that costs most. */
const DEAREST = 'on-demand';
/** A value that lasted this long is not made cheaper by the tenant's API. */
const LASTING_MS = 600_000;

/**
 * Returns the state of a private node where the tenant's API is not trusted. The provider's
 * statement counts, and the dearest reading where he states nothing
 * (docs/explanation/nodes.md#the-dearest-reading).
 */
export function providedState(readings: {
  readonly node: NodeView;
  /** The state by the tenant's API. */
  readonly reported: NodeState;
  readonly statement: ProviderStatement;
  readonly settings: NodeSettings;
  readonly spans: readonly Span<NodeState>[];
  /** Wall clock, milliseconds. */
  readonly at: number;
}): NodeState {
  const { node, reported, statement, settings, spans, at } = readings;
  const stated = nodeState(inItsPlace(node, statement), settings, statement);
  const own = spans.filter(({ state }) => !isOverridden(state));
  const lasted = (read: FieldReader): NodeState | undefined => lasting(own, at, read);
  const first = (field: PlainField): string | undefined =>
    stated[field] ?? (lasted((state) => state[field]) ?? reported)[field];
  const last = spans.at(-1)?.state;
  // A machine keeps the values of its record after the record is gone.
  const recorded =
    statement.source === undefined && last?.provenBy !== undefined && !isOverridden(last);
  const { capacityType, gpu } = stated.decidedBy ?? {};
  const gpuType = gpu === undefined ? gpuTypeOf(reported, lasted(gpuTypeRead)) : stated.gpuType;
  const most = (amount: 'cpu' | 'memory'): bigint => {
    const before = lasted((state) => state[amount])?.[amount] ?? 0n;
    return larger(stated[amount], larger(reported[amount], before));
  };
  const state: NodeState = {
    capacityType:
      capacityType === undefined ? (recorded ? last.capacityType : DEAREST) : stated.capacityType,
    zone: first('zone'),
    region: first('region'),
    instanceType: first('instanceType'),
    sku: first('sku'),
    provenBy: statement.source ?? (recorded ? last.provenBy : undefined),
    cpu: most('cpu'),
    memory: most('memory'),
    gpuType,
    devices: devicesOf(reported, gpuType),
    hami: reported.hami?.map((device) => ({ ...device, type: gpuType })),
    gpuMemory: stated.gpuMemory ?? reported.gpuMemory,
    gpus: gpusOf(
      reported,
      stated.gpus.length > 0 ? stated.gpus : dearerGpus(reported, lasted(installed)),
      gpuType,
    ),
    down: statement.record?.down === true,
    dedicatedTo: reported.dedicatedTo,
    trust: 'provider',
  };
  return {
    ...state,
    decidedBy: decisions(state, { reported, stated, last, source: statement.source }),
  };
}

/** Values of an override end with the override. */
function isOverridden({ provenBy }: NodeState): boolean {
  return provenBy?.endsWith(PRIVATE_NODE_LABELS) === true;
}

type FieldReader = (state: NodeState) => string | bigint | undefined;
const PLAIN_FIELDS = ['zone', 'region', 'instanceType', 'sku'] as const;
type PlainField = (typeof PLAIN_FIELDS)[number];

function inItsPlace(node: NodeView, { labels, record }: ProviderStatement): NodeView {
  const { cpu = 0n, memory = 0n, extended = new Map() } = record ?? {};
  return { ...node, labels, cpu, memory, extended, taints: [] };
}

/** Returns the newest state whose value lasted {@link LASTING_MS}, to `at` or its replacement. */
function lasting(
  spans: readonly Span<NodeState>[],
  at: number,
  read: FieldReader,
): NodeState | undefined {
  let since = { to: at, state: spans.at(-1)?.state };
  for (const { from, to, state } of spans.toReversed()) {
    const same = since.state !== undefined && read(since.state) === read(state);
    if (!same) since = { to: Math.min(to, at), state };
    if (since.to - from >= LASTING_MS) return state;
  }
  return undefined;
}

const gpuTypeRead: FieldReader = ({ gpuType }) => gpuType;
const installed: FieldReader = ({ gpus }) => totalOf(gpus);

function totalOf(gpus: readonly NodeGpus[]): bigint {
  return gpus.reduce((sum, one) => sum + one.installed, 0n);
}

/** A model in labels stays; the name of an instance type is no model. */
function gpuTypeOf(reported: NodeState, lasted: NodeState | undefined): string {
  const named = lasted !== undefined && lasted.gpuType !== UNKNOWN_GPU;
  return named && lasted.gpuType !== lasted.instanceType ? lasted.gpuType : reported.gpuType;
}

/** Returns the device of each resource, with the model that counts. */
function devicesOf({ devices, gpuType: before }: NodeState, type: string): NodeState['devices'] {
  if (type === before) return devices;
  return new Map(
    [...devices].map(([name, device]) => [
      name,
      device.type === before ? { ...device, type } : device,
    ]),
  );
}

/** GPUs that lasted long still count. */
function dearerGpus(reported: NodeState, lasted: NodeState | undefined): readonly NodeGpus[] {
  return lasted !== undefined && totalOf(lasted.gpus) > totalOf(reported.gpus)
    ? lasted.gpus
    : reported.gpus;
}

/**
 * Returns the GPUs with the model that counts. Missing is what the node does not offer at present.
 * It is billed all the same, and kept separate only because resource slices may offer it.
 */
function gpusOf(reported: NodeState, gpus: readonly NodeGpus[], type: string): readonly NodeGpus[] {
  const offered = reported.gpus.reduce((sum, one) => sum + one.installed - one.missing, 0n);
  const [only, ...others] = gpus;
  if (only === undefined || others.length > 0) return gpus;
  const missing = only.installed > offered ? only.installed - offered : 0n;
  const devices = Math.max(only.devices, reported.gpus[0]?.devices ?? 0);
  return [{ type, installed: only.installed, missing, devices }];
}

interface DecisionSources {
  readonly reported: NodeState;
  readonly stated: NodeState;
  readonly last: NodeState | undefined;
  readonly source: string | undefined;
}

/** Returns the labels that decided each field, prefixed by the provider's source if it decided. */
function decisions(
  state: NodeState,
  { reported, stated, last, source = '' }: DecisionSources,
): NodeDecisions {
  const of = (text: string): string => `${source}: ${text}`;
  const by = stated.decidedBy ?? {};
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
