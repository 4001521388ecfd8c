import {
  escapePromqlText,
  type NamePlaceholder,
  type Placeholder,
  type ReadTemplate,
  readQueryTemplate,
} from '../settings/query-template.ts';
import type { PrometheusSettings } from '../settings/settings.ts';
import { namespacesOf, type TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Window } from '../model/window.ts';
import type { BuiltInSubject } from './built-in-queries.ts';
import type { MeasuredCluster, Plan, SharedQuery } from './measure.ts';

/** A template with this value switches the query off. */
export const NO_QUERY = 'none';

interface PlanOptions {
  readonly subject: MeasuredCluster;
  readonly window: Window;
  readonly preset: PrometheusSettings['preset'];
  /** The template of a setting, if any. */
  readonly replacement: string | undefined;
  /** Names of the settings that can give a template. */
  readonly replacedBy: string;
  /** The built-in template; undefined if there is none for this kind of tenant cluster. */
  readonly builtIn: (about: BuiltInSubject) => string | undefined;
}

/**
 * Plans the query about one tenant cluster from the template of its settings or the built-in one.
 * The built-in one selects by host namespace. If tenant clusters share a namespace, nobody is
 * charged what may belong to another.
 */
export function planQuery(options: PlanOptions): Plan {
  const { subject, window, replacement } = options;
  const { cluster } = subject;
  if (replacement === NO_QUERY) return { kind: 'off' };
  if (replacement !== undefined) return renderQuery(replacement, cluster, window);
  // Built-in queries select by the namespace of vCluster's control plane, or by an external label.
  if (cluster.source !== 'workload' && cluster.source !== 'external') return { kind: 'off' };
  const onHost = isOnHost(cluster);
  const template = options.builtIn({
    meterControlPlane: cluster.metering.meterControlPlane,
    onHost,
    uniqueName: subject.uniqueName,
  });
  if (template === undefined) return { kind: 'off' };
  if (options.preset === 'default' && onHost && subject.sharedNamespace !== undefined) {
    const fix = `set ${options.replacedBy} to a query that separates them`;
    const where = `namespace "${subject.sharedNamespace}"`;
    return { kind: 'unclear', reason: `several tenant clusters share the ${where}: ${fix}` };
  }
  return renderQuery(template, cluster, window);
}

/** Whether a tenant cluster has a namespace on the host cluster. */
export function isOnHost({ namespace, source }: TenantCluster): boolean {
  return namespace !== '' && source === 'workload';
}

/**
 * Plans a built-in query that many tenant clusters can share. A tenant cluster with several host
 * namespaces has no query of its own.
 */
export function planShared(
  plan: Plan,
  shared: SharedQuery,
  { subject, window, preset }: Pick<PlanOptions, 'subject' | 'window' | 'preset'>,
): Plan {
  if (plan.kind !== 'query') return plan;
  const { cluster } = subject;
  const isSimple = preset !== 'default' || !isOnHost(cluster) || namespacesOf(cluster).length === 1;
  if (isSimple) return { ...plan, shared };
  return {
    ...plan,
    shared,
    onlyShared: true,
    promql: shared.promql?.([subject], window) ?? plan.promql,
  };
}

/** A matcher for a label that has one of these values. */
export function oneOf(label: string, values: Iterable<string>): string {
  return `${label}=~"${anyOf(values)}"`;
}

/** A pattern that matches one of these texts, for a regular expression in double quotes. */
export function anyOf(texts: Iterable<string>): string {
  return [...new Set(texts)].map((text) => escapePromqlText(literally(text), '"')).join('|');
}

/** A PromQL range as long as a window: `60s`. */
export function rangeOf({ start, end }: Window): string {
  return `${(end - start) / 1000}s`;
}

/** Values for a template: the names of a tenant cluster, and a window. */
export type QuerySubject = Pick<
  TenantCluster,
  'id' | 'namespace' | 'name' | 'tenant' | 'project' | 'instance'
>;

/**
 * Fills a query template for one tenant cluster and window, each value escaped
 * (docs/explanation/security.md#d-7).
 */
export function renderQuery(template: string, subject: QuerySubject, window: Window): Plan {
  const read = readOnce(template);
  if (read.kind === 'problem') {
    return { kind: 'unclear', reason: `${read.what}: "${read.input}"; ${read.fix}` };
  }
  const seconds = (window.end - window.start) / 1000;
  const values = {
    ...namesOf(subject),
    window: rangeOf(window),
    window_seconds: String(seconds),
  };
  let promql = '';
  for (const segment of read.segments) {
    if (segment.kind === 'text') {
      promql += segment.text;
      continue;
    }
    const value = values[segment.name];
    if (value === undefined || value === '') return { kind: 'nameless', placeholder: segment.name };
    promql += escaped(value, segment);
  }
  return { kind: 'query', promql };
}

/** A few templates are filled for thousands of tenant clusters in every window. */
const MOST_TEMPLATES = 256;
const templates = new Map<string, ReadTemplate>();

function readOnce(template: string): ReadTemplate {
  const known = templates.get(template);
  if (known !== undefined) return known;
  if (templates.size >= MOST_TEMPLATES) templates.clear();
  const read = readQueryTemplate(template);
  templates.set(template, read);
  return read;
}

function namesOf(subject: QuerySubject): Readonly<Record<NamePlaceholder, string | undefined>> {
  return {
    namespace: subject.namespace,
    vcluster: subject.name,
    instance: subject.instance,
    project: subject.project,
    tenant: subject.tenant,
    tenant_cluster: subject.id,
  };
}

function escaped(value: string, { place, quote }: Placeholder): string {
  switch (place) {
    case 'bare':
      return value;
    case 'string':
      return escapePromqlText(value, quote);
    case 'regex':
      return escapePromqlText(literally(value), quote);
    default:
      return escapePromqlText(
        value.replaceAll('$', () => '$$'),
        quote,
      );
  }
}

/** A regular expression that matches exactly this text. */
function literally(text: string): string {
  return text.replaceAll(/[\\.+*?()|[\]{}^$]/g, (mark) => `\\${mark}`);
}
