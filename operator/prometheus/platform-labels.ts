import type { MeasuredCluster } from './measure.ts';
import { oneOf } from './plan-query.ts';
import type { Sample } from './query-answer.ts';

/** The labels by which the platform's fleet observability names a tenant cluster; only both together are unique. */
export const PLATFORM_LABELS = ['vcluster_platform_instance', 'vcluster_platform_project'] as const;

/** Matchers of everything that these tenant clusters have, and of other pairs of their instances and projects. */
export function platformMatchers(subjects: readonly MeasuredCluster[]): string {
  const [instance, project] = PLATFORM_LABELS;
  return [
    oneOf(
      instance,
      subjects.map(({ cluster }) => cluster.instance ?? ''),
    ),
    oneOf(
      project,
      subjects.map(({ cluster }) => cluster.project ?? ''),
    ),
  ].join(',');
}

/** What tells a tenant cluster from all others there. */
export function platformKeyOf({ cluster }: MeasuredCluster): string {
  return JSON.stringify([cluster.instance ?? '', cluster.project ?? '']);
}

/** The same of a row. */
export function platformKey(labels: Sample['labels']): string {
  return JSON.stringify(PLATFORM_LABELS.map((label) => labels[label] ?? ''));
}
