import type { ApiResource } from './source.ts';

/** The path of a collection, of one object in it, or of a subresource such as `status`. */
export function resourcePath(resource: ApiResource, name?: string, subresource?: string): string {
  const root =
    resource.group === ''
      ? `/api/${resource.version}`
      : `/apis/${resource.group}/${resource.version}`;
  const scope =
    resource.namespace === undefined ? '' : `/namespaces/${encodeURIComponent(resource.namespace)}`;
  const rest = [name, subresource]
    .filter((part) => part !== undefined)
    .map((part) => `/${encodeURIComponent(part)}`)
    .join('');
  return `${root}${scope}/${resource.plural}${rest}`;
}

/** As kubectl names it: `pods`, `deployments.apps`. */
export function resourceName(resource: ApiResource): string {
  return resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`;
}

/** For messages: the resource's name, and the namespace when it is narrowed to one. */
export function describeResource(resource: ApiResource): string {
  const name = resourceName(resource);
  return resource.namespace === undefined ? name : `${name} in namespace "${resource.namespace}"`;
}
