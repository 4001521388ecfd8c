import type { FocusSettings } from '../../settings/settings.ts';

type ChosenService = FocusSettings['services'][number];

/** The service under which FOCUS lists a metric (docs/reference/focus.md#services). */
export interface FocusService {
  readonly name: string;
  readonly category: string;
  readonly subcategory: string;
}

/**
 * The categories of FOCUS 1.2 with their subcategories. Each has another one, `Other (<category>)`
 * (https://focus.finops.org/focus-specification, ServiceSubcategory).
 */
const CATEGORIES: Readonly<Record<string, string>> = {
  'AI and Machine Learning':
    'AI Platforms|Bots|Generative AI|Machine Learning|Natural Language Processing',
  Analytics: 'Analytics Platforms|Business Intelligence|Data Processing|Search|Streaming Analytics',
  'Business Applications': 'Productivity and Collaboration',
  Compute: 'Containers|End User Computing|Quantum Compute|Serverless Compute|Virtual Machines',
  Databases:
    'Caching|Data Warehouses|Ledger Databases|NoSQL Databases|Relational Databases|Time Series Databases',
  'Developer Tools':
    'Developer Platforms|Continuous Integration and Deployment|Development Environments|Source Code Management|Quality Assurance',
  Identity: 'Identity and Access Management',
  Integration: 'API Management|Messaging|Workflow Orchestration',
  'Internet of Things': 'IoT Analytics|IoT Platforms',
  'Management and Governance':
    'Architecture|Compliance|Cost Management|Data Governance|Disaster Recovery|Endpoint Management|Observability|Support',
  Media: 'Content Creation|Gaming|Media Streaming|Mixed Reality',
  Migration: 'Data Migration|Resource Migration',
  Mobile: '',
  Multicloud: 'Multicloud Integration',
  Networking:
    'Application Networking|Content Delivery|Network Connectivity|Network Infrastructure|Network Routing|Network Security',
  Security: 'Secret Management|Security Posture Management|Threat Detection and Response',
  Storage: 'Backup Storage|Block Storage|File Storage|Object Storage|Storage Platforms',
  Web: 'Application Platforms',
  Other: '',
};

const CATEGORY_OF = new Map(
  Object.entries(CATEGORIES).flatMap(([category, subcategories]) =>
    [...subcategories.split('|').filter(Boolean), `Other (${category})`].map(
      (subcategory) => [subcategory, category] as const,
    ),
  ),
);

/** The category of a subcategory; undefined for a text that FOCUS does not list. */
export function categoryOf(subcategory: string): string | undefined {
  return CATEGORY_OF.get(subcategory);
}

/** The metric of GPUs that were down, which is never charged. */
export const DOWNTIME = 'tenant_gpu_downtime_hours';

/** The services of the operator's own metrics, and their subcategories. */
const OWN: ReadonlyMap<string, readonly [name: string, subcategory: string]> = new Map([
  ['tenant_cpu_core_hours', ['Tenant clusters', 'Containers']],
  ['tenant_memory_gb_hours', ['Tenant clusters', 'Containers']],
  ['tenant_instance_hours', ['Tenant clusters', 'Containers']],
  ['tenant_gpu_hours', ['Tenant clusters', 'Containers']],
  [DOWNTIME, ['Tenant clusters', 'Containers']],
  ['tenant_private_node_hours', ['Private nodes', 'Virtual Machines']],
  ['tenant_storage_gb_hours', ['Tenant cluster storage', 'Block Storage']],
  ['tenant_network_egress_gb', ['Network egress', 'Network Connectivity']],
  ['tenant_lb_hours', ['Load balancers', 'Application Networking']],
]);

/** The service of a metric: a chosen one, or else the default. */
export function serviceOf(metric: string, chosen: readonly ChosenService[] = []): FocusService {
  const [name, subcategory] = OWN.get(metric) ?? ['Other services', 'Other (Other)'];
  const service = chosen.find((one) => one.metric === metric) ?? { name, subcategory };
  const category = categoryOf(service.subcategory) ?? 'Other';
  return { name: service.name, category, subcategory: service.subcategory };
}

/**
 * The first name that chosen services and defaults give to two subcategories, which FOCUS does not
 * allow; undefined if there is none.
 */
export function ambiguousService(chosen: readonly ChosenService[]): string | undefined {
  const subcategories = new Map<string, string>();
  for (const metric of [...OWN.keys(), 'other', ...chosen.map((one) => one.metric)]) {
    const { name, subcategory } = serviceOf(metric, chosen);
    if ((subcategories.get(name) ?? subcategory) !== subcategory) return name;
    subcategories.set(name, subcategory);
  }
  return undefined;
}

/** Spellings that differ from a capital at the begin of each word. */
const WORDS: ReadonlyMap<string, string> = new Map([
  ['gib', 'GiB'],
  ['gpu', 'GPU'],
  ['util', 'Utilization'],
]);

/** A unit as FOCUS spells it: `gpu-hours` is `GPU-Hours`. */
export function focusUnit(unit: string): string {
  return unit
    .split('-')
    .map((word) => WORDS.get(word) ?? word.slice(0, 1).toUpperCase() + word.slice(1))
    .join('-');
}
