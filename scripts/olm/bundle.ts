import { stringify } from 'yaml';
import { isRecord } from '../../operator/model/is-record.ts';
import { identity, type KubernetesObject } from '../charts/kustomize.ts';
import { clusterServiceVersion, type OperatorSet } from './cluster-service-version.ts';
import { type Rights, rightsOf } from './rights.ts';

export interface OlmBundleParts {
  readonly version: string;
  /** Output of `kubectl kustomize` for the base. */
  readonly base: readonly KubernetesObject[];
  /** Custom resources shown as examples. */
  readonly samples: readonly KubernetesObject[];
  /** The icon, an SVG. */
  readonly icon: string;
  /**
   * Image that replaces the base's, which no registry has:
   * `registry.example.com/meterfeed@sha256:…`.
   */
  readonly image?: string | undefined;
  /** First line of every file. */
  readonly head: string;
}

const PACKAGE = 'meterfeed';
/**
 * For API group v1alpha1 (https://olm.operatorframework.io/docs/best-practices/channel-naming/).
 */
const CHANNEL = 'candidate';
const NAMESPACE = 'meterfeed-system';

/** Place in the bundle for each object of the base. Every object must have one. */
interface Sorted {
  readonly operator: OperatorSet;
  readonly namespace: KubernetesObject;
  readonly settings: Readonly<Record<string, string>>;
  /** Copied to the bundle without their namespace, which the installation chooses. */
  readonly manifests: readonly KubernetesObject[];
  readonly rights: Rights;
}

/**
 * Returns the files of a bundle for the Operator Lifecycle Manager, by their path in it
 * (docs/how-to/olm.md, https://olm.operatorframework.io/docs/tasks/creating-operator-bundle/).
 * Throws if the base has something that a bundle cannot contain.
 */
export function olmBundle(parts: OlmBundleParts): ReadonlyMap<string, string> {
  const { version, base, samples, icon, image, head } = parts;
  const { operator, namespace, settings, manifests, rights } = sorted(base);
  const definitions = manifests.filter(({ kind }) => kind === 'CustomResourceDefinition');
  const service = clusterServiceVersion({
    version,
    operator,
    namespace,
    settings,
    definitions,
    rights,
    samples,
    icon,
    image,
  });
  const annotations = {
    annotations: {
      'operators.operatorframework.io.bundle.mediatype.v1': 'registry+v1',
      'operators.operatorframework.io.bundle.manifests.v1': 'manifests/',
      'operators.operatorframework.io.bundle.metadata.v1': 'metadata/',
      'operators.operatorframework.io.bundle.package.v1': PACKAGE,
      'operators.operatorframework.io.bundle.channels.v1': CHANNEL,
      'operators.operatorframework.io.bundle.channel.default.v1': CHANNEL,
    },
  };
  const text = (object: unknown): string => `# ${head}\n${stringify(object, { lineWidth: 0 })}`;
  return new Map([
    ['manifests/meterfeed.clusterserviceversion.yaml', text(service)],
    ...manifests.map((object): readonly [string, string] => [
      `manifests/${object.metadata.name}.${object.kind.toLowerCase()}.yaml`,
      text(object),
    ]),
    ['metadata/annotations.yaml', text(annotations)],
  ]);
}

function sorted(base: readonly KubernetesObject[]): Sorted {
  const operator = only(base, 'StatefulSet') as OperatorSet;
  const settings = only(base, 'ConfigMap');
  const namespace = only(base, 'Namespace');
  const account = only(base, 'ServiceAccount');
  const taken = new Set<KubernetesObject>([operator, settings, namespace, account]);
  const rights = rightsOf(
    base.filter(({ kind }) => /Role/.test(kind)),
    account.metadata.name,
    NAMESPACE,
  );
  const manifests: KubernetesObject[] = [...rights.unbound];
  for (const object of base) {
    if (taken.has(object) || /Role/.test(object.kind)) continue;
    if (object.kind === 'CustomResourceDefinition') manifests.push(object);
    // A StatefulSet requires the other Service; a Deployment does not.
    else if (object.kind !== 'Service') {
      throw new Error(`a bundle has no place for it: "${identity(object)}"`);
    } else if (object.metadata.name !== operator.spec.serviceName) {
      manifests.push(withoutNamespace(object));
    }
  }
  return { operator, namespace, settings: textsOf(settings), manifests, rights };
}

function only(objects: readonly KubernetesObject[], kind: string): KubernetesObject {
  const [found, ...others] = objects.filter((object) => object.kind === kind);
  if (found === undefined || others.length > 0) {
    throw new Error(`the base: ${kind}: not one but "${others.length === 0 ? 0 : 'several'}"`);
  }
  return found;
}

function textsOf(settings: KubernetesObject): Readonly<Record<string, string>> {
  const { data } = settings;
  if (!isRecord(data)) throw new Error(`${identity(settings)}: no "data"`);
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, String(value)]));
}

function withoutNamespace(object: KubernetesObject): KubernetesObject {
  const { namespace: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}
