import type { CapacityTypeDecision } from './capacity-type.ts';
import type { NodeView } from './node.ts';
import { textAt } from './raw-fields.ts';

/**
 * Which of a node's labels said what, `label=value` each; absent where none did. It bears on no
 * number: it is what an explanation shows.
 */
export interface NodeDecisions {
  readonly capacityType?: string;
  readonly zone?: string;
  readonly region?: string;
  readonly instanceType?: string;
  readonly sku?: string;
  /** Of GPU models and of how GPUs are cut and shared; all that are there. */
  readonly gpu?: readonly string[];
  readonly dedicated?: readonly string[];
}

export interface DecidingLabels {
  readonly capacityType: CapacityTypeDecision;
  readonly zone: readonly string[];
  readonly region: readonly string[];
  readonly instanceType: readonly string[];
  readonly sku: readonly string[];
  readonly dedicated: readonly string[];
}

const GPU_LABEL =
  /^((beta\.)?amd\.com\/gpu\.(product-name|compute-memory-partition)|nvidia\.com\/(gpu\.(product|machine|count|replicas|sharing-strategy)|mig\.strategy|mig-.+\.(count|replicas|sharing-strategy))|accelerator|cloud\.google\.com\/gke-(accelerator|gpu-.+|max-shared-clients-per-gpu)|k8s\.amazonaws\.com\/accelerator)$/;

/** Reads a node's decisions off its labels. */
export function nodeDecisions({ labels }: NodeView, by: DecidingLabels): NodeDecisions {
  const said = (label: string): readonly string[] => {
    const value = textAt(labels, label);
    return value === undefined ? [] : [`${label}=${value}`];
  };
  const first = (names: readonly string[]): string | undefined => names.flatMap(said)[0];
  const gpu = Object.keys(labels)
    .filter((label) => GPU_LABEL.test(label))
    .toSorted()
    .flatMap(said);
  const dedicated = by.dedicated.flatMap(said);
  const { label } = by.capacityType;
  const decided = {
    capacityType: label === undefined ? undefined : first([label]),
    zone: first(by.zone),
    region: first(by.region),
    instanceType: first(by.instanceType),
    sku: first(by.sku),
    gpu: gpu.length === 0 ? undefined : gpu,
    dedicated: dedicated.length === 0 ? undefined : dedicated,
  };
  return Object.fromEntries(Object.entries(decided).filter(([, value]) => value !== undefined));
}
