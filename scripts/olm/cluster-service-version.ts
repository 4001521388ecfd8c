import { MINIMUM_KUBERNETES } from '../charts/chart-file.ts';
import { type KubernetesObject } from '../charts/kustomize.ts';
import type { Rights } from './rights.ts';

/** The changed fields of a pod. */
interface PodSpec {
  readonly serviceAccountName: string;
  readonly containers: readonly [OperatorContainer];
  readonly volumes: readonly unknown[];
}

interface OperatorContainer {
  readonly image: string;
  readonly env: readonly unknown[];
  readonly envFrom: readonly { readonly configMapRef?: unknown }[];
}

/** The used fields of the base's StatefulSet. */
export type OperatorSet = KubernetesObject & {
  readonly spec: {
    readonly replicas: number;
    readonly selector: unknown;
    readonly serviceName: string;
    readonly template: { readonly metadata: unknown; readonly spec: PodSpec };
    readonly volumeClaimTemplates: readonly [{ readonly metadata: { readonly name: string } }];
  };
};

export interface ServiceVersionParts {
  readonly version: string;
  readonly operator: OperatorSet;
  readonly namespace: KubernetesObject;
  /** Variables that the base sets through a ConfigMap. */
  readonly settings: Readonly<Record<string, string>>;
  readonly definitions: readonly KubernetesObject[];
  readonly rights: Rights;
  readonly samples: readonly KubernetesObject[];
  readonly icon: string;
  readonly image?: string | undefined;
}

/** The used fields of a CustomResourceDefinition. */
type Definition = KubernetesObject & {
  readonly spec: {
    readonly names: { readonly kind: string };
    readonly versions: readonly {
      readonly name: string;
      readonly schema: { readonly openAPIV3Schema: { readonly description: string } };
    }[];
  };
};

const HOME = 'https://meterfeed.io';
const SUMMARY = 'Meters what tenant clusters use and feeds it to billing systems';

/**
 * Returns the ClusterServiceVersion
 * (https://olm.operatorframework.io/docs/concepts/crds/clusterserviceversion/). It supports
 * Deployments only, so the StatefulSet becomes a Deployment with the same pod. The ledger's claim
 * has the name that the StatefulSet would give it.
 */
export function clusterServiceVersion(parts: ServiceVersionParts) {
  const { version, operator, namespace, definitions, rights, samples, icon } = parts;
  const { serviceAccountName } = operator.spec.template.spec;
  const image = parts.image ?? operator.spec.template.spec.containers[0].image;
  const permissions = (rules: readonly unknown[]) => [{ serviceAccountName, rules }];
  return {
    apiVersion: 'operators.coreos.com/v1alpha1',
    kind: 'ClusterServiceVersion',
    metadata: {
      name: `meterfeed.v${version}`,
      annotations: {
        'alm-examples': JSON.stringify(samples, null, 2),
        capabilities: 'Seamless Upgrades',
        categories: 'Monitoring',
        containerImage: image,
        description: SUMMARY,
        'operatorframework.io/suggested-namespace-template': JSON.stringify(namespace),
      },
    },
    spec: {
      displayName: 'meterfeed',
      description: description(claimOf(operator)),
      version,
      maturity: 'alpha',
      minKubeVersion: MINIMUM_KUBERNETES,
      provider: { name: 'meterfeed', url: HOME },
      links: [{ name: 'meterfeed', url: HOME }],
      keywords: ['metering', 'billing', 'usage', 'vcluster', 'gpu', 'multi-tenancy'],
      icon: [{ base64data: Buffer.from(icon).toString('base64'), mediatype: 'image/svg+xml' }],
      installModes: [
        { type: 'OwnNamespace', supported: true },
        { type: 'SingleNamespace', supported: false },
        { type: 'MultiNamespace', supported: false },
        // OLM would extend the right to read Secrets of the own namespace to all namespaces
        // (docs/how-to/olm.md#rights).
        { type: 'AllNamespaces', supported: false },
      ],
      customresourcedefinitions: { owned: (definitions as readonly Definition[]).flatMap(owned) },
      install: {
        strategy: 'deployment',
        spec: {
          clusterPermissions: permissions(rights.cluster),
          permissions: permissions(rights.own),
          deployments: [{ name: operator.metadata.name, spec: deployment(parts, image) }],
        },
      },
    },
  };
}

function deployment({ operator, settings }: ServiceVersionParts, image: string): unknown {
  const { replicas, selector, template } = operator.spec;
  const [container] = template.spec.containers;
  const [{ metadata: ledger }] = operator.spec.volumeClaimTemplates;
  const variables = Object.entries(settings).map(([name, value]) => ({ name, value }));
  return {
    replicas,
    selector,
    // Never two pods at once: the ledger has one writer.
    strategy: { type: 'Recreate' },
    template: {
      ...template,
      spec: {
        ...template.spec,
        containers: [
          {
            ...container,
            image,
            env: [...container.env, ...variables],
            envFrom: container.envFrom.filter(({ configMapRef }) => configMapRef === undefined),
          },
        ],
        volumes: [
          ...template.spec.volumes,
          { name: ledger.name, persistentVolumeClaim: { claimName: claimOf(operator) } },
        ],
      },
    },
  };
}

/** Name that the StatefulSet gives the claim of its only pod. */
export function claimOf({ metadata, spec }: OperatorSet): string {
  return `${spec.volumeClaimTemplates[0].metadata.name}-${metadata.name}-0`;
}

function owned({ metadata, spec }: Definition): readonly unknown[] {
  const { kind } = spec.names;
  return spec.versions.map(({ name: version, schema }) => ({
    name: metadata.name,
    version,
    kind,
    displayName: kind.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' '),
    description: schema.openAPIV3Schema.description.trim(),
  }));
}

function description(claim: string): string {
  return `Meters what tenant clusters (virtual clusters such as vCluster, k3k, or namespaces) use on a control plane cluster: CPU, memory,
storage, load balancers, GPUs in every sharing mode, whole nodes, egress. Fixed, closed time windows are written once to a durable
ledger and delivered to billing systems (Lago, Stripe, Metronome, Kafka, any CloudEvents webhook), with nothing lost and nothing billed twice.

**Before you install**, make the volume claim \`${claim}\` in the namespace, which holds the ledger; the pod waits for it. 5Gi
are enough to begin with, 40Gi with RETENTION=1488h for 62 days of 100 tenant clusters. Uninstalling leaves it there, and the claim of that name that an
installation by kubectl or Helm has left is taken over.

Variables are set by \`spec.config.env\` of the Subscription, credentials by a Secret \`meterfeed\` whose keys are variables. Destinations,
prices and policies are custom resources.
`;
}
