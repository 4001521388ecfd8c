import type { RawObject } from '../../../operator/kubernetes/source.ts';
import { type HostAttack, podOf } from './host-objects.ts';
import { hostileText, NAMES } from './values.ts';

/** Annotations by which HAMi and KAI give parts of GPUs to pods, as whoever may edit a pod writes them. */
export const GPU_ANNOTATION_ATTACKS: readonly HostAttack[] = [
  {
    name: 'annotations of HAMi and KAI',
    make: (random, cluster) =>
      Array.from({ length: random.pick([20, 300]) }, (_, index) => {
        const put = podOf(cluster, index, random);
        const annotations = {
          'hami.io/vgpu-devices-allocated': random.pick([
            ...SHARES,
            hostileText(random).slice(0, 60_000),
          ]),
          'hami.io/bind-phase': random.pick(['success', 'allocating', '']),
          'gpu-fraction': random.pick(AMOUNTS),
          'gpu-memory': random.pick(AMOUNTS),
          'gpu-fraction-num-devices': random.pick(AMOUNTS),
        };
        const labels = {
          'vcluster.loft.sh/managed-by': cluster,
          'runai-gpu-group': random.pick(['group', 'a'.repeat(63)]),
          'kai.scheduler/queue': random
            .pick(NAMES)
            .replaceAll(/[^-A-Za-z0-9_.]/g, '')
            .slice(0, 63),
        };
        const metadata = { ...(put.object['metadata'] as RawObject), labels, annotations };
        return { ...put, object: { ...put.object, metadata } };
      }),
  },
];

const SHARES: readonly string[] = [
  'GPU-host-gpu-0,NVIDIA,1,1:;',
  'GPU-honest-nodes-1,NVIDIA,999999999,100:;',
  'GPU-0,NVIDIA,-5,-5:;',
  'GPU-0,NVIDIA,1e308,NaN:;',
  `${'GPU-0,NVIDIA,1,1:'.repeat(900)};`,
  ';'.repeat(16_000),
  ':'.repeat(16_000),
  ',,,,,,',
];

const AMOUNTS = [
  '0.5',
  '1',
  '-1',
  '0',
  '1e308',
  '0.000000000000001',
  '9'.repeat(400),
  'NaN',
  '',
  '64',
];
