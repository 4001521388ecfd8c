// Generated from crds/ by "npm run generate". Change the YAML there, never this file.

/**
 * Where to deliver to, and what.
 */
export interface BillingDestinationSpec {
  /**
   * The kind of billing system. webhook posts CloudEvents 1.0 batches to an address of yours; lago feeds a Lago server; stripe feeds Stripe; metronome feeds Metronome; noop delivers to nowhere, which shows what would be delivered. Cannot be changed: create another destination instead.
   */
  type: 'lago' | 'stripe' | 'metronome' | 'webhook' | 'noop';
  /**
   * Stops delivery and keeps the cursor. The ledger keeps every event until delivery goes on.
   */
  suspend?: boolean;
  /**
   * Where a destination without a cursor begins. now delivers the windows that close from now on; earliest delivers everything the ledger still holds. Without effect once the cursor exists.
   */
  startFrom?: 'now' | 'earliest';
  /**
   * Which metrics to deliver. Without it, those that this type of destination takes by itself: webhook and noop take all, lago takes those it can bill and GPU utilization, stripe and metronome those they can bill.
   */
  metrics?: {
    /**
     * Deliver these metrics and no others.
     *
     * @minItems 1
     * @maxItems 200
     *
     * Items: A metric code, as GET /api/v1/catalog lists it.
     */
    include?: string[];
    /**
     * Deliver none of these metrics. Wins over include.
     *
     * @minItems 1
     * @maxItems 200
     *
     * Items: A metric code, as GET /api/v1/catalog lists it.
     */
    exclude?: string[];
  };
  /**
   * Settings of type webhook.
   */
  webhook?: {
    /**
     * Where batches are posted to. Credentials in the address, link-local addresses and cloud metadata addresses are refused; redirects are never followed.
     */
    url: string;
    /**
     * Keys that sign each batch, in the header X-Svc-Signature. Every key given signs, so that a receiver goes on verifying while you rotate: add the new key, change the receiver, remove the old key. Without any, batches are not signed. The Secrets are read in the operator's own namespace; a change reaches the destination without a restart.
     *
     * @maxItems 4
     *
     * Items: One signing key.
     */
    secretRefs?: {
      /**
       * Name of the Secret.
       */
      name: string;
      /**
       * Key within the Secret's data.
       */
      key: string;
    }[];
    /**
     * Headers added to each request, such as Authorization.
     *
     * @maxItems 16
     *
     * Items: One header.
     */
    headers?: {
      /**
       * The header's name.
       */
      name: string;
      /**
       * The value as plain text. For anything confidential use valueSecretRef.
       */
      value?: string;
      /**
       * The value out of a Secret in the operator's own namespace.
       */
      valueSecretRef?: {
        /**
         * Name of the Secret.
         */
        name: string;
        /**
         * Key within the Secret's data.
         */
        key: string;
      };
    }[];
  };
  /**
   * Settings of type lago.
   */
  lago?: {
    /**
     * Base address of the Lago API, without /api/v1, such as https://lago.example.com. Credentials in the address, link-local addresses and cloud metadata addresses are refused; redirects are never followed.
     */
    url: string;
    /**
     * The API key, in a Secret in the operator's own namespace.
     */
    apiKeySecretRef: {
      /**
       * Name of the Secret.
       */
      name: string;
      /**
       * Key within the Secret's data.
       */
      key: string;
    };
    /**
     * Secrets that verify Lago's alerts at /webhooks/lago, beside those of the operator's environment; several during rotation. Without any, alerts are not taken. The Secrets are read in the operator's own namespace.
     *
     * @maxItems 4
     *
     * Items: One secret.
     */
    webhookSecretRefs?: {
      /**
       * Name of the Secret.
       */
      name: string;
      /**
       * Key within the Secret's data.
       */
      key: string;
    }[];
    /**
     * Code of the plan that new tenants are subscribed to. Created with all charges 0 when Lago has no such plan. Without it, the operator's DEFAULT_PLAN_CODE.
     */
    planCode?: string;
    /**
     * Currency of the plan and of new tenants, ISO 4217. Without it, the operator's BILLING_CURRENCY.
     */
    currency?: string;
  };
  /**
   * Settings of type stripe.
   */
  stripe?: {
    /**
     * The secret or restricted key, in a Secret in the operator's own namespace.
     */
    apiKeySecretRef: {
      /**
       * Name of the Secret.
       */
      name: string;
      /**
       * Key within the Secret's data.
       */
      key: string;
    };
    /**
     * Secrets that verify Stripe's alerts at /webhooks/stripe, beside those of the operator's environment; several during rotation. Without any, alerts are not taken. The Secrets are read in the operator's own namespace.
     *
     * @maxItems 4
     *
     * Items: One secret.
     */
    webhookSecretRefs?: {
      /**
       * Name of the Secret.
       */
      name: string;
      /**
       * Key within the Secret's data.
       */
      key: string;
    }[];
    /**
     * Base address of the Stripe API. Without it, https://api.stripe.com. Credentials in the address, link-local addresses and cloud metadata addresses are refused; redirects are never followed.
     */
    url?: string;
    /**
     * Fields and dimensions of events by whose values meters are split, so that each value can have a price of its own. An event goes to the meter of the values that it has, or else to the metric's own meter. An empty list splits nothing. Changing it makes other meters, which have to be priced before.
     *
     * @maxItems 4
     *
     * Items: A field or dimension of events, such as sku or capacity_type.
     */
    splitMetersBy?: string[];
    /**
     * Subscribe each tenant to the active metered prices that carry the metadata vbilling_plan with its plan's code, and follow changes of plans and prices.
     */
    autoSubscribe?: boolean;
    /**
     * Cancel the subscriptions made here at the end of their period when a tenant is offboarded. Taken back when the tenant returns before.
     */
    cancelOnRemove?: boolean;
    /**
     * Meter events a second at most. 0 picks 20 for keys of test mode and 200 for live keys.
     */
    maxRequestsPerSecond?: number;
    /**
     * Plan of tenants that name none. Without it, the operator's DEFAULT_PLAN_CODE.
     */
    planCode?: string;
    /**
     * Currency of tenants that name none, ISO 4217. A tenant whose plan has prices in other currencies only is held back. Without it, the operator's BILLING_CURRENCY.
     */
    currency?: string;
    /**
     * The version of Stripe's API that requests are pinned to. Without it, the one this release was made for.
     */
    apiVersion?: string;
  };
  /**
   * Settings of type metronome.
   */
  metronome?: {
    /**
     * Base address of the Metronome API. Without it, https://api.metronome.com. Credentials in the address, link-local addresses and cloud metadata addresses are refused; redirects are never followed.
     */
    url?: string;
    /**
     * The API token, in a Secret in the operator's own namespace.
     */
    apiTokenSecretRef: {
      /**
       * Name of the Secret.
       */
      name: string;
      /**
       * Key within the Secret's data.
       */
      key: string;
    };
    /**
     * Secrets that verify Metronome's alerts at /webhooks/metronome, beside those of the operator's environment; several during rotation. Without any, alerts are not taken. The Secrets are read in the operator's own namespace.
     *
     * @maxItems 4
     *
     * Items: One secret.
     */
    webhookSecretRefs?: {
      /**
       * Name of the Secret.
       */
      name: string;
      /**
       * Key within the Secret's data.
       */
      key: string;
    }[];
    /**
     * Id, alias or name of the rate card that each tenant gets a contract on, unless its plan names another one. Without it no contracts are made.
     */
    rateCard?: string;
    /**
     * Currency of tenants that name none, ISO 4217. A tenant whose rate card is priced in another currency is held back. Without it, the operator's BILLING_CURRENCY.
     */
    currency?: string;
    /**
     * Have Metronome hand its invoices to Stripe: each tenant's Stripe customer is found or created, and linked. Without it invoices stay in Metronome.
     */
    stripeLink?: {
      /**
       * Stripe's secret or restricted key, in a Secret in the operator's own namespace.
       */
      apiKeySecretRef: {
        /**
         * Name of the Secret.
         */
        name: string;
        /**
         * Key within the Secret's data.
         */
        key: string;
      };
      /**
       * How Stripe collects the money.
       */
      collectionMethod?: 'charge_automatically' | 'send_invoice';
      /**
       * Base address of the Stripe API. Without it, https://api.stripe.com. Credentials in the address, link-local addresses and cloud metadata addresses are refused; redirects are never followed.
       */
      url?: string;
      /**
       * The version of the Stripe API that requests are pinned to. Without it, 2026-09-30.endive.
       */
      apiVersion?: string;
    };
  };
}

/**
 * What the operator last saw of this destination. Moving numbers are written at most once a minute.
 */
export interface BillingDestinationStatus {
  /**
   * What is true of this object, one entry per type. Ready: events are being delivered, or there is nothing to deliver. Bootstrapped: the billing system has what it needs before any event. Delivering: the last attempt was accepted. Stalled: the newest spec cannot be used and the last good one, if any, goes on. Present only while they hold: DeadLetters (events were refused for good), TenantsParked (events wait for their tenant), UnpricedUsage (usage that nobody has priced), LateRefusals (usage was taken and found wrong later), Drift (what the billing system has of yesterday differs from what it was given), RateLimitTooLow (usage comes faster than the billing system takes it).
   *
   * @maxItems 16
   *
   * Items: One aspect of this object's state.
   */
  conditions?: {
    /**
     * The aspect.
     */
    type: string;
    /**
     * Whether it holds; Unknown while the operator cannot tell.
     */
    status: 'True' | 'False' | 'Unknown';
    /**
     * The metadata.generation that this condition was computed from.
     */
    observedGeneration?: number;
    /**
     * When status last changed.
     */
    lastTransitionTime: string;
    /**
     * The cause as one CamelCase word, for machines.
     */
    reason: string;
    /**
     * The cause in a sentence, for people; says how to mend it. Never carries a secret.
     */
    message: string;
  }[];
  /**
   * The metadata.generation that the operator acted on last. Below it, the newest spec has not been looked at.
   */
  observedGeneration?: number;
  /**
   * How far delivery has come.
   */
  cursor?: {
    /**
     * Every event up to this ledger sequence number is delivered, or set aside as a dead letter.
     */
    sequence: number;
    /**
     * End of the window of the event at the cursor.
     */
    windowEnd?: string;
  };
  /**
   * How far delivery is behind the ledger.
   */
  lag?: {
    /**
     * Events in the ledger after the cursor.
     */
    events: number;
    /**
     * Seconds since the end of the oldest window that is not delivered yet; 0 when all are.
     */
    seconds: number;
  };
  /**
   * Events accepted by the billing system since the operator started.
   */
  delivered?: number;
  /**
   * Events that the billing system will never accept as they are, kept until replayed or discarded.
   */
  deadLetters?: number;
  /**
   * Tenants that the billing system does not take, and whose events wait in order until it does.
   */
  parkedTenants?: {
    /**
     * How many there are.
     */
    total: number;
    /**
     * The first 100, sorted by tenant. All of them are at GET /api/v1/destinations.
     *
     * @maxItems 100
     *
     * Items: One of them.
     */
    items?: {
      /**
       * Its id.
       */
      tenant: string;
      /**
       * Why it is not served.
       */
      reason: string;
      /**
       * How many of its events wait.
       */
      events: number;
      /**
       * Since when.
       */
      since: string;
    }[];
  };
  /**
   * When events were last accepted.
   */
  lastDeliveryTime?: string;
  /**
   * Why the last failed attempt failed; gone once delivery succeeds. Never carries a secret.
   */
  lastError?: string;
}

/**
 * Which tenant clusters, and what to override.
 */
export interface TenantOverrideSpec {
  /**
   * The tenant clusters this applies to: one by its namespace and name, or all that carry certain labels. Where several overrides match one tenant cluster, a named match beats a selector; of equal ones the older holds.
   */
  match: {
    /**
     * Namespace on the control plane cluster that holds the tenant cluster.
     */
    namespace?: string;
    /**
     * Name of the tenant cluster.
     */
    name?: string;
    /**
     * Labels of the tenant cluster's workload and of its Namespace; the workload's win where both carry a key. All requirements must hold.
     */
    selector?: {
      /**
       * Labels that must be present with exactly these values.
       */
      matchLabels?: {
        /**
         * The label's value.
         */
        [k: string]: string;
      };
      /**
       * Further requirements on labels.
       *
       * @maxItems 16
       *
       * Items: One requirement.
       */
      matchExpressions?: {
        /**
         * The label's key.
         */
        key: string;
        /**
         * In and NotIn compare the value with values (NotIn also holds where the label is absent); Exists and DoesNotExist look only at the key.
         */
        operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
        /**
         * Values to compare with.
         *
         * @maxItems 32
         *
         * Items: One value.
         */
        values?: string[];
      }[];
    };
  };
  /**
   * The billing customer id. Several tenant clusters may share one.
   */
  tenant?: string;
  /**
   * The customer's name in billing systems.
   */
  displayName?: string;
  /**
   * The cost-attribution project stamped on events.
   */
  project?: string;
  /**
   * Code of the plan, or name of the rate card, that billing systems put the customer on.
   */
  plan?: string;
  /**
   * The class stamped on events, such as public, enterprise or dev.
   */
  tenantClass?: string;
  /**
   * Whether these tenant clusters are left unmetered.
   */
  exclude?: boolean;
  /**
   * Whether a suspended billing state holds for these tenant clusters. exempt ones are told their state and never suspended; enforced makes an exception from an override that exempts more of them.
   */
  enforcement?: 'exempt' | 'enforced';
  /**
   * Metering settings that differ for these tenant clusters. An absent one follows the MeteringPolicy.
   */
  metering?: {
    /**
     * What CPU and memory are billed by. usage is what the metrics API reports, requests is what pods reserve, max is the greater of the two for each pod and resource.
     */
    cpuMemoryBasis?: 'usage' | 'requests' | 'max';
    /**
     * Whether pods, volumes and load balancers of the tenant cluster's control plane are billed as well. Instance hours normally cover them.
     */
    meterControlPlane?: boolean;
    /**
     * Whether CPU, memory, GPU, storage and load balancer events are split by the namespace inside the tenant cluster.
     */
    meterByNamespace?: boolean;
    /**
     * From when on a pod is billed. running bills from the first start of any of its containers, scheduled from its binding to a node. Both end with its last container.
     */
    podLifetime?: 'running' | 'scheduled';
    /**
     * How nodes of their own are billed. node bills the whole node while it is there, usage bills the pods on it.
     */
    privateNodeBilling?: 'node' | 'usage';
    /**
     * Namespaces inside these tenant clusters whose pods on own nodes cost nothing where privateNodeBilling is usage.
     *
     * @maxItems 64
     *
     * Items: One namespace.
     */
    excludeNamespaces?: string[];
    /**
     * PromQL template for egress bytes, in place of the built-in query; none switches egress off. Names of tenant clusters such as {{namespace}} may stand inside of strings only. Environment variable EGRESS_QUERY.
     */
    egressQuery?: string;
    /**
     * PromQL template for GPU utilization in percent, grouped by modelName or gpu_type, in place of the built-in query; none switches utilization off. Names of tenant clusters such as {{namespace}} may stand inside of strings only. Environment variable GPU_UTIL_QUERY.
     */
    gpuUtilQuery?: string;
    /**
     * PromQL template for the number of GPUs that utilization covers, in place of the built-in query; none leaves the number out. Names of tenant clusters such as {{namespace}} may stand inside of strings only. Environment variable GPU_COUNT_QUERY.
     */
    gpuCountQuery?: string;
  };
}

/**
 * What the override applies to.
 */
export interface TenantOverrideStatus {
  /**
   * What is true of this object, one entry per type. Ready: the override is in force. Conflicting: another override of equal specificity matches one of the same tenant clusters, and the older one holds there. Stalled: the newest spec cannot be used and the last good one, if any, stays in force.
   *
   * @maxItems 16
   *
   * Items: One aspect of this object's state.
   */
  conditions?: {
    /**
     * The aspect.
     */
    type: string;
    /**
     * Whether it holds; Unknown while the operator cannot tell.
     */
    status: 'True' | 'False' | 'Unknown';
    /**
     * The metadata.generation that this condition was computed from.
     */
    observedGeneration?: number;
    /**
     * When status last changed.
     */
    lastTransitionTime: string;
    /**
     * The cause as one CamelCase word, for machines.
     */
    reason: string;
    /**
     * The cause in a sentence, for people; says how to mend it. Never carries a secret.
     */
    message: string;
  }[];
  /**
   * The metadata.generation that the operator acted on last. Below it, the newest spec has not been looked at.
   */
  observedGeneration?: number;
  /**
   * The tenant clusters that it applies to.
   */
  matched?: {
    /**
     * How many there are.
     */
    total: number;
    /**
     * The first 100 of their ids, sorted. All of them are at GET /api/v1/tenants.
     *
     * @maxItems 100
     *
     * Items: The id of a tenant cluster, such as tenant-acme-prod.
     */
    items?: string[];
  };
}

/**
 * The metering settings. Changes take effect without a restart. Durations are written as in 500ms, 90s or 1h30m; those that may be long also as whole days, as in 7d.
 */
export interface MeteringPolicySpec {
  /**
   * The size of a metering window, in whole seconds: 10s to 1h and a divisor of an hour. Windows are aligned to the wall clock. Environment variable COLLECTION_INTERVAL, by default 60s.
   */
  collectionInterval?: string;
  /**
   * How often tenant clusters are discovered. Environment variable RECONCILE_INTERVAL, by default 30s.
   */
  reconcileInterval?: string;
  /**
   * How far back windows missed during a downtime are made up for. Environment variable MAX_BACKFILL, by default 6h.
   */
  maxBackfill?: string;
  /**
   * How long a tenant may be without tenant clusters before it is offboarded from billing systems. Environment variable OFFBOARD_GRACE, by default 1h.
   */
  offboardGrace?: string;
  /**
   * How long after its end a window is closed, so that late news of the cluster still counts. Environment variable SETTLING_DELAY, by default 3s.
   */
  settlingDelay?: string;
  /**
   * What CPU and memory are billed by. usage is what the metrics API reports, requests is what pods reserve, max is the greater of the two for each pod and resource.
   */
  cpuMemoryBasis?: 'usage' | 'requests' | 'max';
  /**
   * Whether pods, volumes and load balancers of the tenant cluster's control plane are billed as well. Instance hours normally cover them.
   */
  meterControlPlane?: boolean;
  /**
   * Whether CPU, memory, GPU, storage and load balancer events are split by the namespace inside the tenant cluster.
   */
  meterByNamespace?: boolean;
  /**
   * What GPU hours of pods and resource claims count. equivalents counts a share of a GPU as that share, so that billed and idle time sum to what is installed; devices counts each MIG device, time-sliced replica, partition or claimed device as one. Environment variable GPU_QUANTITY, by default equivalents.
   */
  gpuQuantity?: 'equivalents' | 'devices';
  /**
   * From when on a pod is billed. running bills from the first start of any of its containers, scheduled from its binding to a node. Both end with its last container.
   */
  podLifetime?: 'running' | 'scheduled';
  /**
   * How nodes that belong to one tenant cluster alone are billed. node bills the whole node while it is there, usage bills the pods on it. Environment variable PRIVATE_NODE_BILLING, by default node.
   */
  privateNodeBilling?: 'node' | 'usage';
  /**
   * Namespaces inside tenant clusters whose pods on own nodes cost nothing where privateNodeBilling is usage. Environment variable TENANT_EXCLUDE_NAMESPACES, by default kube-system.
   *
   * @maxItems 64
   *
   * Items: One namespace.
   */
  excludeNamespaces?: string[];
  /**
   * PromQL template for egress bytes, in place of the built-in query; none switches egress off. Names of tenant clusters such as {{namespace}} may stand inside of strings only. Environment variable EGRESS_QUERY.
   */
  egressQuery?: string;
  /**
   * PromQL template for GPU utilization in percent, grouped by modelName or gpu_type, in place of the built-in query; none switches utilization off. Names of tenant clusters such as {{namespace}} may stand inside of strings only. Environment variable GPU_UTIL_QUERY.
   */
  gpuUtilQuery?: string;
  /**
   * PromQL template for the number of GPUs that utilization covers, in place of the built-in query; none leaves the number out. Names of tenant clusters such as {{namespace}} may stand inside of strings only. Environment variable GPU_COUNT_QUERY.
   */
  gpuCountQuery?: string;
  /**
   * Whether pods and nodes that are deleted within a window are billed to the moment of their deletion. Otherwise they are billed to the last window end at which they were still there.
   */
  watchDeletions?: boolean;
  /**
   * Extended resources of which one is a full GPU. MIG and shared resources are always detected. Environment variable GPU_RESOURCES, by default nvidia.com/gpu and amd.com/gpu.
   *
   * @maxItems 32
   *
   * Items: One resource name, such as nvidia.com/gpu.
   */
  gpuResources?: string[];
  /**
   * Drivers of Dynamic Resource Allocation whose devices are metered as GPUs. Environment variable DRA_GPU_DRIVERS, by default gpu.nvidia.com and gpu.amd.com.
   *
   * @maxItems 32
   *
   * Items: One driver, such as gpu.nvidia.com.
   */
  draGpuDrivers?: string[];
  /**
   * Taints that mark a node as down, by their keys. Nothing of such a node is billed, and its GPUs are downtime. Environment variable UNHEALTHY_NODE_TAINTS, by default node.kubernetes.io/not-ready and node.kubernetes.io/unreachable.
   *
   * @maxItems 32
   *
   * Items: The key of one taint.
   */
  unhealthyNodeTaints?: string[];
  /**
   * Node label whose value is the SKU of the node and of its GPUs. Environment variable SKU_LABEL.
   */
  skuLabel?: string;
  /**
   * Node label that names how the node is bought, as on-demand, spot, preemptible or reserved. It beats the labels of cloud providers. Environment variable CAPACITY_TYPE_LABEL.
   */
  capacityTypeLabel?: string;
  /**
   * A further selector of dedicated nodes, as in example.com/dedicated-to=%s, where %s stands for the name of the tenant cluster. It beats all others. Environment variable VCLUSTER_NODE_LABEL.
   */
  dedicatedNodeLabel?: string;
  /**
   * Whether the region of what a node bears is that of its label topology.kubernetes.io/region. Environment variable REGION_FROM_NODE, by default false.
   */
  regionFromNode?: boolean;
  /**
   * The zone of nodes that carry no zone label.
   */
  zone?: string;
  /**
   * The class of tenant clusters that carry none.
   */
  defaultTenantClass?: string;
  /**
   * Whom usage is billed to unless a label or TenantOverride says so. cluster makes one customer of each tenant cluster, project one of each platform project.
   */
  tenantSource?: 'cluster' | 'project';
  /**
   * The least severe messages that the operator logs, as long as this is set; debug tells most. Environment variable LOG_LEVEL, by default info.
   */
  logLevel?: 'debug' | 'info' | 'warn' | 'error';
  /**
   * Metrics of your own that may be pushed in through POST /api/v1/events. Environment variable CUSTOM_METRICS.
   *
   * @maxItems 100
   *
   * Items: One metric.
   */
  customMetrics?: {
    /**
     * Its code.
     */
    code: string;
    /**
     * The unit of its quantities, such as tokens.
     */
    unit: string;
    /**
     * Keys by which billing systems may split it.
     *
     * @maxItems 16
     *
     * Items: One key.
     */
    dimensions?: string[];
  }[];
  /**
   * How long usage is kept in the ledger after every destination has consumed it. Environment variable RETENTION, by default 168h.
   */
  retention?: string;
  /**
   * Which tenant clusters are looked for.
   */
  discovery?: {
    /**
     * Namespaces of the control plane cluster that are looked at; an empty list means all. A change makes the operator stop and build its watches anew, which takes a few seconds and loses nothing. Environment variable WATCH_NAMESPACES, by default all.
     *
     * @maxItems 256
     *
     * Items: One namespace.
     */
    namespaces?: string[];
    /**
     * The platform's name of this cluster; instances that the platform placed on another one are left alone. Environment variable PLATFORM_CLUSTER.
     */
    platformCluster?: string;
    /**
     * Whether all metadata keys are believed on platform instances, which the users of a project can edit, and not only project and display name. Environment variable TRUST_PLATFORM_METADATA, by default false.
     */
    trustPlatformMetadata?: boolean;
  };
  /**
   * How tenant clusters that have nodes of their own are read through their own API.
   */
  tenantAPI?: {
    /**
     * Whether they are. Environment variable TENANT_API, by default true.
     */
    enabled?: boolean;
    /**
     * Name of the Secret in a tenant cluster's namespace that holds a read-only kubeconfig. The operator may read Secrets of the names that its ClusterRole lists, so change both together. Environment variable TENANT_KUBECONFIG_SECRET, by default svc-kubeconfig.
     */
    kubeconfigSecret?: string;
    /**
     * Whether the tenant cluster's admin kubeconfig is accepted where that Secret is missing. The operator needs the right to read it. Environment variable TENANT_ADMIN_FALLBACK, by default false.
     */
    adminFallback?: boolean;
    /**
     * Where kubeconfigs of tenants may point to beside the tenant cluster's own Service. Environment variable TENANT_API_ALLOWED_HOSTS, by default none.
     *
     * @maxItems 64
     *
     * Items: A host name, an IP address or a CIDR such as 10.20.0.0/16.
     */
    allowedHosts?: string[];
  };
  /**
   * What alerts of billing systems lead to.
   */
  enforcement?: {
    /**
     * observe records a billing state, annotate also marks control planes, enforce also has the pods of suspended tenants refused. The operator needs the rights of the component enforcement for the last two. Environment variable ENFORCEMENT_MODE, by default observe.
     */
    mode?: 'observe' | 'annotate' | 'enforce';
    /**
     * Billing states that event types of billing systems lead to, in place of or beside the built-in ones. They stand in place of all rules of the environment variable ENFORCEMENT_RULES.
     *
     * @maxItems 128
     *
     * Items: One rule.
     */
    rules?: {
      /**
       * The event type as the billing system writes it, such as invoice.payment_failed.
       */
      event: string;
      /**
       * The billing state that it leads to.
       */
      state: 'active' | 'warning' | 'delinquent' | 'suspended';
    }[];
  };
  /**
   * The Prometheus that is asked for egress, GPU utilization and metrics of your own. Its queries are egressQuery, gpuUtilQuery and gpuCountQuery.
   */
  prometheus?: {
    /**
     * Base address of an API that answers as Prometheus does, without /api/v1. With it only the credentials and headers given here are sent, none of the environment. Link-local and cloud metadata addresses are refused; redirects are never followed. Environment variable PROMETHEUS_URL.
     */
    url?: string;
    /**
     * Which labels the built-in queries select by; vcluster-platform takes those of the platform's instance and project. Environment variable PROMETHEUS_PRESET, by default default.
     */
    preset?: 'default' | 'vcluster-platform';
    /**
     * A name and a password that each query carries.
     */
    basicAuth?: {
      /**
       * The name.
       */
      username: string;
      /**
       * The password, in a Secret in the operator's own namespace.
       */
      passwordSecretRef: {
        /**
         * Name of the Secret.
         */
        name: string;
        /**
         * Key within the Secret's data.
         */
        key: string;
      };
    };
    /**
     * The bearer token that each query carries, in a Secret in the operator's own namespace. A change of the Secret takes effect within seconds.
     */
    bearerTokenSecretRef?: {
      /**
       * Name of the Secret.
       */
      name: string;
      /**
       * Key within the Secret's data.
       */
      key: string;
    };
    /**
     * Headers added to queries, such as a tenant id. A header Authorization wins over the other credentials.
     *
     * @maxItems 16
     *
     * Items: One header.
     */
    headers?: {
      /**
       * The header's name.
       */
      name: string;
      /**
       * The value as plain text. For anything confidential use valueSecretRef.
       */
      value?: string;
      /**
       * The value out of a Secret in the operator's own namespace.
       */
      valueSecretRef?: {
        /**
         * Name of the Secret.
         */
        name: string;
        /**
         * Key within the Secret's data.
         */
        key: string;
      };
    }[];
  };
}

/**
 * How metering is doing. Moving numbers are written at most once a minute.
 */
export interface MeteringPolicyStatus {
  /**
   * What is true of this object, one entry per type. Ready: windows are being closed. Stalled: the newest spec cannot be used and the last good one, or the environment, stays in force. Present only while they hold: MetricsUnavailable (CPU and memory usage cannot be read and are gaps), DiscoveryProblems (metadata that cannot be used), DiskFilling, RetentionShortened (consumed events are deleted early to make room), LedgerDamaged, EnforcementFailing (a tenant cluster's billing state cannot be marked).
   *
   * @maxItems 16
   *
   * Items: One aspect of this object's state.
   */
  conditions?: {
    /**
     * The aspect.
     */
    type: string;
    /**
     * Whether it holds; Unknown while the operator cannot tell.
     */
    status: 'True' | 'False' | 'Unknown';
    /**
     * The metadata.generation that this condition was computed from.
     */
    observedGeneration?: number;
    /**
     * When status last changed.
     */
    lastTransitionTime: string;
    /**
     * The cause as one CamelCase word, for machines.
     */
    reason: string;
    /**
     * The cause in a sentence, for people; says how to mend it. Never carries a secret.
     */
    message: string;
  }[];
  /**
   * The metadata.generation that the operator acted on last. Below it, the newest spec has not been looked at.
   */
  observedGeneration?: number;
  /**
   * End of the last closed window.
   */
  lastWindow?: string;
  /**
   * The window size in force.
   */
  windowSeconds?: number;
  /**
   * How many customers are metered.
   */
  tenants?: number;
  /**
   * How many tenant clusters are metered.
   */
  tenantClusters?: number;
  /**
   * What follows from the billing states of tenants.
   */
  enforcement?: {
    /**
     * ENFORCEMENT_MODE.
     */
    mode: 'observe' | 'annotate' | 'enforce';
    /**
     * Tenant clusters whose new pods are to be refused. GET /api/v1/status names them.
     */
    suspendedTenantClusters: number;
    /**
     * Namespaces and control planes that do not carry their marks yet.
     */
    pendingObjects: number;
  };
  /**
   * Tenant clusters with nodes of their own whose API could not be read.
   */
  failedTenantAPIs?: {
    /**
     * How many there are.
     */
    total: number;
    /**
     * The first 100, sorted by tenant cluster. All of them are at GET /api/v1/status.
     *
     * @maxItems 100
     *
     * Items: One of them.
     */
    items?: {
      /**
       * Its id.
       */
      tenantCluster: string;
      /**
       * Why its API could not be read.
       */
      reason: string;
      /**
       * Since when.
       */
      since: string;
    }[];
  };
  /**
   * Stretches of time in which something could not be measured. Nothing is billed for them.
   */
  gaps?: {
    /**
     * How many there are.
     */
    total: number;
    /**
     * The newest 100. All of them are at GET /api/v1/windows.
     *
     * @maxItems 100
     *
     * Items: One gap.
     */
    items?: {
      /**
       * What could not be read, such as metrics.
       */
      source: string;
      /**
       * What it concerns, such as the id of a tenant cluster.
       */
      scope: string;
      /**
       * Its start.
       */
      from: string;
      /**
       * Its end.
       */
      to: string;
      /**
       * Why.
       */
      reason: string;
    }[];
  };
  /**
   * The first 100 destinations, of custom resources and of the environment, sorted by name.
   *
   * @maxItems 100
   *
   * Items: One destination.
   */
  destinations?: {
    /**
     * Its name.
     */
    name: string;
    /**
     * The ledger sequence number up to which it is served.
     */
    cursor: number;
    /**
     * Seconds since the end of the oldest window that is not delivered yet; 0 when all are.
     */
    lagSeconds: number;
  }[];
  /**
   * The durable store of usage events.
   */
  ledger?: {
    /**
     * Sequence number of the newest event.
     */
    sequence: number;
    /**
     * Bytes on disk.
     */
    bytes: number;
    /**
     * Segments on disk.
     */
    segments: number;
    /**
     * Hash over every event up to sequence; two ledgers with the same one hold the same events.
     */
    chain?: string;
  };
}
