<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.28" styleCategories="AllStyleCategories">
  <pipe>
    <rasterrenderer type="singlebandpseudocolor" band="$band" opacity="1" alphaBand="-1" nodataColor="" classificationMin="0" classificationMax="$top">
      <rasterTransparency/>
      <rastershader>
        <colorrampshader colorRampType="INTERPOLATED" classificationMode="1" clip="0" minimumValue="0" maximumValue="$top" labelPrecision="4">
$items        </colorrampshader>
      </rastershader>
    </rasterrenderer>
    <!-- $name -->
  </pipe>
  <blendMode>0</blendMode>
</qgis>
