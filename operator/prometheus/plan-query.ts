import type { PrometheusSettings } from '../config/settings.ts';
import type { Window } from '../model/window.ts';
import type { BuiltInSubject } from './built-in-queries.ts';
import type { MeasuredCluster, Plan } from './measure.ts';
import { renderQuery } from './render-query.ts';

/** What switches a query off, in place of a template. */
export const NO_QUERY = 'none';

export interface PlanOptions {
  readonly subject: MeasuredCluster;
  readonly window: Window;
  readonly preset: PrometheusSettings['preset'];
  /** The template that a setting gives, if any. */
  readonly replacement: string | undefined;
  /** The settings that could give one, in words. */
  readonly replacedBy: string;
  /** The built-in template; undefined where there is none for such a tenant cluster. */
  readonly builtIn: (about: BuiltInSubject) => string | undefined;
}

/**
 * The query about one tenant cluster: the template of its settings, or the built-in one. That one goes by
 * the host namespace, so it cannot tell tenant clusters apart that share one: nobody is charged what may
 * be another's.
 */
export function planQuery(options: PlanOptions): Plan {
  const { subject, window, replacement } = options;
  const { cluster } = subject;
  if (replacement === NO_QUERY) return { kind: 'off' };
  if (replacement !== undefined) return planTemplate(replacement, subject, window);
  const onHost = cluster.namespace !== '' && cluster.source === 'workload';
  const template = options.builtIn({
    meterControlPlane: cluster.metering.meterControlPlane,
    onHost,
    uniqueName: subject.uniqueName,
  });
  if (template === undefined) return { kind: 'off' };
  if (options.preset === 'default' && onHost && subject.sharesNamespace) {
    const mend = `give ${options.replacedBy} a query that tells them apart`;
    const where = `namespace "${cluster.namespace}"`;
    return { kind: 'unclear', reason: `several tenant clusters share the ${where}: ${mend}` };
  }
  return planTemplate(template, subject, window);
}

/** Fills a template for one tenant cluster and window. */
export function planTemplate(template: string, { cluster }: MeasuredCluster, window: Window): Plan {
  const rendered = renderQuery(template, cluster, window);
  switch (rendered.kind) {
    case 'query':
      return { kind: 'ask', promql: rendered.promql };
    case 'nameless':
      return rendered;
    default:
      return { kind: 'unclear', reason: rendered.reason };
  }
}
