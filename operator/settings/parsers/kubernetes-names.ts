import { invalid, type Parser, valid } from './parser.ts';
import { matching } from './scalars.ts';

const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const SUBDOMAIN =
  /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/;
const NAME_PART = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

/** Returns true for a DNS-1123 subdomain, the form of most Kubernetes names. */
export function isSubdomain(text: string): boolean {
  return SUBDOMAIN.test(text);
}

/** Returns true for a label key: `name` or `example.com/name`. */
export function isQualifiedName(text: string): boolean {
  const slash = text.indexOf('/');
  if (slash < 0) return NAME_PART.test(text);
  return SUBDOMAIN.test(text.slice(0, slash)) && NAME_PART.test(text.slice(slash + 1));
}

/** A namespace (DNS-1123 label). */
export function namespaceName(): Parser<string> {
  return matching(
    LABEL,
    'a namespace',
    'not a namespace name',
    'use lower case letters, digits and -, at most 63',
  );
}

/** The name of a Kubernetes object or DRA driver, or a label prefix (DNS-1123 subdomain). */
export function subdomain(kind: string, example: string): Parser<string> {
  return matching(
    SUBDOMAIN,
    `a ${kind}`,
    `not a ${kind}`,
    `use lower case letters, digits, - and ., as in ${example}`,
  );
}

/** The key of a label or taint. */
export function qualifiedName(kind: string, example: string): Parser<string> {
  return {
    accepts: `a ${kind}`,
    parse: (text) =>
      isQualifiedName(text)
        ? valid(text)
        : invalid(`not a ${kind}`, `name the key alone, as in ${example}`),
  };
}

/** At the beginning of a key it stands for the name that the key itself contains. */
export const NAMED_BY_KEY = '*.';

/** Key of a label or annotation that names a tenant: by its value, or by the key's start. */
export function namingKey(): Parser<string> {
  return {
    accepts: 'a label or annotation key; `*.` in its beginning stands for the name',
    parse: (text) =>
      isQualifiedName(text.startsWith(NAMED_BY_KEY) ? text.slice(NAMED_BY_KEY.length) : text)
        ? valid(text)
        : invalid(
            'not a label or annotation key',
            'name the key alone, as in capsule.clastix.io/tenant or *.tree.hnc.x-k8s.io/depth',
          ),
  };
}

const ALWAYS_DETECTED = /^nvidia\.com\/(mig-.+|gpu\.shared|.+\.shared)$/;

/**
 * An extended resource that is one full GPU. MIG and shared resources are always detected
 * (docs/explanation/gpus.md#gpu-names).
 */
export function gpuResource(): Parser<string> {
  return {
    accepts: 'an extended resource such as `nvidia.com/gpu`',
    parse(text) {
      if (!text.includes('/') || !isQualifiedName(text)) {
        return invalid(
          'not an extended resource',
          'write it with its domain, as in nvidia.com/gpu',
        );
      }
      if (ALWAYS_DETECTED.test(text)) {
        return invalid(
          'not a full GPU',
          'leave it out: MIG and shared resources are always detected',
        );
      }
      return valid(text);
    },
  };
}

/** `key=%s`; `%s` is the tenant cluster's name (docs/explanation/nodes.md#whole-nodes). */
export function nodeLabelTemplate(): Parser<string> {
  const fix = 'write key=%s, where %s stands for the name of the tenant cluster';
  return {
    accepts: '`key=%s`',
    parse(text) {
      const [key = '', value, ...rest] = text.split('=');
      if (value === undefined || rest.length > 0 || !isQualifiedName(key)) {
        return invalid('not a label selector', fix);
      }
      if (value.split('%s').length !== 2) return invalid('must contain %s once', fix);
      if (!NAME_PART.test(value.replace('%s', 'x'))) return invalid('not a label value', fix);
      return valid(text);
    },
  };
}
