/** A cluster-scoped custom resource for tests, with a status and free fields. */
export const WIDGETS = { group: 'test.meterfeed.io', version: 'v1', plural: 'widgets' } as const;

export const WIDGET_CRD = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.test.meterfeed.io' },
  spec: {
    group: WIDGETS.group,
    scope: 'Cluster',
    names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
    versions: [
      {
        name: WIDGETS.version,
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
              status: {
                type: 'object',
                'x-kubernetes-preserve-unknown-fields': true,
                properties: {
                  conditions: {
                    type: 'array',
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['type'],
                    items: {
                      type: 'object',
                      required: ['type', 'status'],
                      properties: {
                        type: { type: 'string' },
                        status: { type: 'string' },
                        reason: { type: 'string' },
                        message: { type: 'string' },
                        lastTransitionTime: { type: 'string', format: 'date-time' },
                        observedGeneration: { type: 'integer', format: 'int64' },
                      },
                    },
                  },
                },
              },
            },
          },
        },
      },
    ],
  },
};

export function widget(name: string, spec: Readonly<Record<string, unknown>> = {}) {
  return { apiVersion: 'test.meterfeed.io/v1', kind: 'Widget', metadata: { name }, spec };
}
