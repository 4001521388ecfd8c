import type { TenantObjectsList } from '../tenant-scopes.ts';

/** A list without tenant clusters. */
export const NO_TENANT_OBJECTS: TenantObjectsList = {
  list: () => [],
  release: () => undefined,
};
