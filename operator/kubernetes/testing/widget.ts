import { fileURLToPath } from 'node:url';

/** A cluster-scoped custom resource for tests; {@link WIDGET_CRD} installs it. */
export const WIDGETS = { group: 'test.meterfeed.io', version: 'v1', plural: 'widgets' } as const;

/** Path of its definition. */
export const WIDGET_CRD = fileURLToPath(new URL('widgets.crd.yaml', import.meta.url));

export function widget(name: string, spec: Readonly<Record<string, unknown>> = {}) {
  return { apiVersion: 'test.meterfeed.io/v1', kind: 'Widget', metadata: { name }, spec };
}
