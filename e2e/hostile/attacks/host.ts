import { CUSTOM_RESOURCE_ATTACKS } from './custom-resources.ts';
import { FORGED_CONTROL_PLANES } from './forged-control-planes.ts';
import { GPU_ANNOTATION_ATTACKS } from './gpu-annotations.ts';
import { type HostAttack, HOST_OBJECT_ATTACKS } from './host-objects.ts';
import { TENANT_KIND_ATTACKS } from './tenant-kinds.ts';

/** What can be written into the API of the host cluster. */
export const HOST_ATTACKS: readonly HostAttack[] = [
  ...HOST_OBJECT_ATTACKS,
  ...GPU_ANNOTATION_ATTACKS,
  ...FORGED_CONTROL_PLANES,
  ...TENANT_KIND_ATTACKS,
  ...CUSTOM_RESOURCE_ATTACKS,
];
