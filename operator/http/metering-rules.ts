/** The rule behind a metric's numbers, for explanations. */
export interface MeteringRule {
  readonly text: string;
  /** Where the rule is told in full. */
  readonly documentation: string;
  /** The scope of gaps that hold it up (docs/metering.md, "Unknown is not zero"). */
  readonly scope: string;
}

const PODS =
  'For each pod on a shared node that is up, from the first start of a container to the last finish';

const RULES: Readonly<Record<string, MeteringRule>> = {
  tenant_cpu_core_hours: {
    text: `${PODS}: cores (of the basis that the property "basis" names) × hours. A node that is billed whole: its cores × hours.`,
    documentation: 'docs/metering.md#lifetimes-not-samples',
    scope: 'pods',
  },
  tenant_memory_gb_hours: {
    text: `${PODS}: GiB (of the basis that the property "basis" names) × hours. A node that is billed whole: its GiB × hours.`,
    documentation: 'docs/metering.md#lifetimes-not-samples',
    scope: 'pods',
  },
  tenant_gpu_hours: {
    text: `${PODS}, or for each resource claim while a pod uses it: GPU-equivalents × hours. A node that is billed whole: its physical GPUs that can be allocated × hours.`,
    documentation: 'docs/metering.md#gpus',
    scope: 'gpus',
  },
  tenant_gpu_downtime_hours: {
    text: 'GPU-equivalents × hours during which a node was down, or GPUs of a node that is billed whole could not be allocated. Informational: charged nowhere.',
    documentation: 'docs/metering.md#downtime',
    scope: 'gpus',
  },
  tenant_private_node_hours: {
    text: 'One for each hour of a node that is billed whole, from its creation to its deletion, but for the time that it was down.',
    documentation: 'docs/metering.md#whole-nodes',
    scope: 'gpus',
  },
  tenant_storage_gb_hours: {
    text: 'For each volume claim while it is Bound: GiB provisioned × hours, mounted or not.',
    documentation: 'docs/metering.md#lifetimes-not-samples',
    scope: 'volumes',
  },
  tenant_lb_hours: {
    text: 'One for each hour of each Service of type LoadBalancer while it has an ingress address.',
    documentation: 'docs/metering.md#lifetimes-not-samples',
    scope: 'load-balancers',
  },
  tenant_instance_hours: {
    text: 'One for each hour in which at least one control plane replica of the tenant cluster was ready; workloads that are ready at the same time count once.',
    documentation: 'docs/metering.md#lifetimes-not-samples',
    scope: 'workloads',
  },
};

const ASKED: MeteringRule = {
  text: 'The answer of the configured Prometheus query at the end of the window; nothing of it is measured on objects.',
  documentation: 'docs/metering.md#measured-by-prometheus',
  scope: 'prometheus',
};

/** The rule of a metric that the collector measures. */
export function meteringRule(metric: string): MeteringRule {
  return Object.hasOwn(RULES, metric) ? (RULES[metric] ?? ASKED) : ASKED;
}
